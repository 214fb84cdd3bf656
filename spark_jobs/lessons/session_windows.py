"""Session windows: as long as somebody goes on, with a gap that ends them.

A session begins with an event and lasts until the gap after its last event. An event closer than the gap joins a
session, or joins two into one. The gap may depend on the row.

Notice: user3's second event came exactly the gap after the first, and still belongs to the session. user1's event of
10:08:30 came last and joined two sessions into one. With a gap of thirty minutes user2 has one session until 11:00,
which the watermark has not reached. Sessions come in append mode, when the watermark has passed their end.
In production: `user_sessions` builds these, with a gap of its own and the amount of what was bought.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, outcome


def sessions(actions: DataFrame, gap: Column | str) -> DataFrame:
    """Return `user`, `start`, `end` and `count` of each session."""
    grouped = actions.withWatermark("ts", "10 minutes").groupBy("user", F.session_window("ts", gap).alias("s"))
    start, end = (F.date_format(f"s.{edge}", "HH:mm:ss").alias(edge) for edge in ("start", "end"))
    return grouped.count().select("user", start, end, "count")


def run(lab: Lab) -> Iterator[str]:
    """Show the sessions with one gap for all, and with a longer gap for user2."""
    actions = lab.stream("user string, ts timestamp", "actions.json", "later.json")
    longer = F.when(F.col("user") == "user2", "30 minutes").otherwise("5 minutes")
    for name, gap in (("five minutes", "5 minutes"), ("user2 has thirty", longer)):
        yield name
        yield from lab.batches(sessions(actions, gap), "append", name)
    update = sessions(actions, "5 minutes").writeStream.outputMode("update").format("noop")
    yield f"update: {outcome(update.start)}"
