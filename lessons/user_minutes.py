"""Events per user and minute from a socket, in complete mode.

Lines of text arrive over a socket. The query splits them into user and time, and counts them in
windows of one minute.

Notice: The window of 10:01 has both users. The events of user1 at 10:00:20 and 10:01:20 lie in
different windows.
In production: `action_counts` is this function. In update mode its watermark removes old state.
"""

import socket
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, started, wait_until
from spark_jobs.clickstream.action_counts import action_counts


def counts_per_minute(lines: DataFrame) -> DataFrame:
    """Return `minute`, `user` and `count` from lines of `user,time`."""
    event = F.from_csv("value", "user_id string, event_time timestamp").alias("event")
    counts = action_counts(
        lines.select(event).select("event.*"), "user_id", "1 minute", None, "10 minutes"
    )
    minute = F.date_format("window_start", "HH:mm").alias("minute")
    return counts.select(
        minute, F.col("user_id").alias("user"), F.col("action_count").alias("count")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Send five events and show the final result."""
    events = (context.data / "events.csv").read_bytes()
    collector = BatchCollector()
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = context.spark.readStream.format("socket").options(
            host="127.0.0.1", port=server.getsockname()[1]
        )
        counts = counts_per_minute(source.load())
        with started(counts.writeStream.outputMode("complete").foreachBatch(collector)):
            connection, _ = server.accept()
            with connection:
                connection.sendall(events)
                wait_until(lambda: collector.texts and "10:02" in collector.texts[-1])
    yield collector.texts[-1].partition("\n")[2]
