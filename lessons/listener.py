"""A query listener receives start, progress, idle and termination events of all queries.

The listener API exists in Python too, although older texts deny it. Spark calls the listener in the
driver, asynchronously, so it does not slow the query down, and events arrive late. With
`spark.sql.streaming.metricsEnabled`, a query also registers gauges (rates, latency, state rows)
with Spark's metrics system. Their names begin with `spark.streaming` and the query's name.

Notice: `observe` adds your own metrics to the progress, computed during the batch: a maximum, or a
count of doubtful rows. Events arrive after the fact, so the lesson waits for them. A gauge has the
value of the latest progress, for Prometheus or JMX. Rate and latency differ from run to run, so a
run prints them below the output, as `measured`.
In production: The jobs' `--progress`, as in `archive`, writes the same progress as JSON lines. It
reads what Spark keeps of each query instead of listening.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from lessons.harness.context import LessonContext, started, wait_until


class EventLog(StreamingQueryListener):
    """Keeps the events it receives."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record that a query started."""
        self.events.append(f"started {event.name}")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record a batch."""
        batch = event.progress
        observed = batch.observedMetrics["users"].asDict()
        self.events.append(f"batch {batch.batchId}: {batch.numInputRows} rows, observed {observed}")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Ignore that a query is idle."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Record that a query ended."""
        self.events.append(f"ended, exception {event.exception}")


def run(context: LessonContext) -> Iterator[str]:
    """Listen to a query of one batch."""
    spark, log = context.spark, EventLog()
    spark.conf.set("spark.sql.streaming.metricsEnabled", True)
    spark.streams.addListener(log)
    try:
        users = context.stream("user string", "events.json").observe(
            "users", F.max("user").alias("last_by_name")
        )
        with started(
            users.groupBy("user")
            .count()
            .writeStream.outputMode("update")
            .format("noop")
            .queryName("users")
        ) as query:
            query.processAllAvailable()
            wait_until(lambda: len(log.events) == 2)
            # Python has no access to the metrics system, so this goes through the JVM.
            metrics = query._jsq.streamingQuery().streamMetrics()
            gauges = metrics.metricRegistry().getGauges()
            values = {f"{metrics.sourceName()}.{name}": gauges[name].getValue() for name in gauges}
        wait_until(lambda: len(log.events) == 3)
    finally:
        spark.streams.removeListener(log)
    yield "\n".join(log.events)
    yield "gauges"
    for name, value in sorted(values.items()):
        if name.endswith(("states-rowsTotal", "eventTime-watermark")):
            yield f"  {name} = {value}"
        else:
            yield f"  {name}"
            context.measurements.append(f"{name} = {value}")
