"""Events per user and minute from a socket, in complete mode.

Lines of text come over a real socket; they are split into a user and a time, and counted in windows of a minute.

Notice: The window of 10:01 has both users; user1's event of 10:00:20 and that of 10:01:20 lie in different windows.
In production: `action_counts` does this per action and per user, with a watermark that lets it forget.
"""

import socket
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Batches, Lab, started, wait_until


def counts_per_minute(lines: DataFrame) -> DataFrame:
    """Return `minute`, `user` and `count` from lines of `user,time`."""
    events = lines.select(F.from_csv("value", "user string, ts timestamp").alias("event")).select("event.*")
    counts = events.groupBy(F.window("ts", "1 minute"), "user").count()
    return counts.select(F.date_format("window.start", "HH:mm").alias("minute"), "user", "count")


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
