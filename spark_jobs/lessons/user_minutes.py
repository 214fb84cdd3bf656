"""Events per user and minute from a socket, in complete mode.

Lines of text come over a real socket; they are split into a user and a time, and counted in windows of a minute.

Notice: The window of 10:01 has both users; user1's event of 10:00:20 and that of 10:01:20 lie in different windows.
In production: `action_counts` is this very function; in update mode its watermark lets it forget.
"""

import socket
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.action_counts import action_counts
from spark_jobs.lessons.frame.lab import Batches, Lab, started, wait_until


def counts_per_minute(lines: DataFrame) -> DataFrame:
    """Return `minute`, `user` and `count` from lines of `user,time`."""
    event = F.from_csv("value", "user_id string, event_time timestamp").alias("event")
    counts = action_counts(lines.select(event).select("event.*"), "user_id", "1 minute", None, "10 minutes")
    minute = F.date_format("window_start", "HH:mm").alias("minute")
    return counts.select(minute, F.col("user_id").alias("user"), F.col("action_count").alias("count"))


def run(lab: Lab) -> Iterator[str]:
    """Send five events and show the last result."""
    events = (lab.data / "events.csv").read_bytes()
    shown = Batches()
    with socket.create_server(("127.0.0.1", 0)) as server:
        source = lab.spark.readStream.format("socket").options(host="127.0.0.1", port=server.getsockname()[1])
        counts = counts_per_minute(source.load())
        with started(counts.writeStream.outputMode("complete").foreachBatch(shown)):
            connection, _ = server.accept()
            with connection:
                connection.sendall(events)
                wait_until(lambda: shown.texts and "10:02" in shown.texts[-1])
    yield shown.texts[-1].partition("\n")[2]
