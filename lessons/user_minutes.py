"""Events per user and minute, from a socket and from JSON files, in complete mode.

Lines of text arrive over a socket. The query splits them into user and time, and counts them in
windows of one minute. The same events come again as JSON files, one per batch: JSON has names and
types, so nothing has to be split.

Notice: The window of 10:01 has both users. The events of user1 at 10:00:20 and 10:01:20 lie in
different windows. Complete mode writes all windows again with each batch, also those that the batch
did not change.
In production: `action_counts` is this function. In update mode its watermark removes old state.
"""

import socket
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, started, wait_until
from spark_jobs.clickstream.action_counts import action_counts

SCHEMA = "user_id string, event_time timestamp"


def counts_per_minute(events: DataFrame) -> DataFrame:
    """Return `minute`, `user` and `count` of events with `user_id` and `event_time`."""
    counts = action_counts(events, "user_id", "1 minute", None, "10 minutes")
    minute = F.date_format("window_start", "HH:mm").alias("minute")
    return counts.select(
        minute, F.col("user_id").alias("user"), F.col("action_count").alias("count")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Count the events from a socket and show the final result, then from files, batch by batch."""
    yield "from a socket, the last batch"
    yield _counted_from_socket(context, (context.data / "events.csv").read_bytes())
    yield "from JSON files, each batch"
    events = context.stream(SCHEMA, *(f"{number}.json" for number in (1, 2, 3)))
    yield from context.run_batches(counts_per_minute(events), "complete")


def _counted_from_socket(context: LessonContext, lines: bytes) -> str:
    collector = BatchCollector()
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = context.spark.readStream.format("socket").options(
            host="127.0.0.1", port=server.getsockname()[1]
        )
        events = source.load().select(F.from_csv("value", SCHEMA).alias("event")).select("event.*")
        writer = counts_per_minute(events).writeStream.outputMode("complete")
        with started(writer.foreachBatch(collector)):
            connection, _ = server.accept()
            with connection:
                connection.sendall(lines)
                wait_until(lambda: collector.texts and "10:02" in collector.texts[-1])
    return collector.texts[-1].partition("\n")[2]
