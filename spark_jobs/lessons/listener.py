"""A listener hears of every query of the session: started, each batch, idle, ended; and metrics go where you say.

The listener exists in Python too, whatever older texts say. It is called in the driver, apart from the query, so it
neither slows it down nor hears of things at once. With `spark.sql.streaming.metricsEnabled` a query registers gauges
(rates, latency, rows of state) with Spark's metrics system, under its name.

Notice: `observe` puts figures of your own into the progress, computed on the way: a maximum, a count of suspicious
rows. The listener hears of everything later than it happened, so the lesson waits for it.
In production: `spark_jobs/progress.py` is such a listener; it writes JSON lines.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_jobs.lessons.frame.lab import Lab, started, wait_until


class Diary(StreamingQueryListener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Hear that a query began."""
        self.heard.append(f"started {event.name}")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Hear of a batch."""
        observed = event.progress.observedMetrics["users"].asDict()
        self.heard.append(
            f"batch {event.progress.batchId}: {event.progress.numInputRows} rows, observed {observed}"
        )

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Hear that there was nothing to do for a while."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Hear that a query ended."""
        self.heard.append(f"ended, exception {event.exception}")


def run(lab: Lab) -> Iterator[str]:
    """Listen to a query of one batch."""
    spark, diary = lab.spark, Diary()
    spark.conf.set("spark.sql.streaming.metricsEnabled", True)
    spark.streams.addListener(diary)
    try:
        users = lab.stream("user string", "events.json").observe("users", F.max("user").alias("last_by_name"))
        with started(
            users.groupBy("user").count().writeStream.outputMode("update").format("noop").queryName("users")
        ) as query:
            query.processAllAvailable()
            wait_until(lambda: len(diary.heard) == 2)
        wait_until(lambda: len(diary.heard) == 3)
    finally:
        spark.streams.removeListener(diary)
    yield "\n".join(diary.heard)
