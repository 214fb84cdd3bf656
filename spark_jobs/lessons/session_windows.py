"""Session windows: as long as somebody goes on, with a gap that ends them.

A session begins with an event and lasts until the gap after its last event. An event closer than the gap joins a
session, or joins two into one. The gap may depend on the row.

Notice: user3's second event came exactly the gap after the first, and still belongs to the session. user1's event of
10:08:30 came last and joined two sessions into one. A tablet's gap of thirty minutes gives user2 one session until
11:00, which the watermark has not reached. Sessions come in append mode, when the watermark has passed their end.
In production: `user_sessions` is this very function; its gap is 30 minutes.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, outcome
from spark_jobs.user_sessions import user_sessions

SCHEMA = "event_id string, user_id string, event_time timestamp, device string, action string, amount decimal(18,2)"


def shown(sessions: DataFrame) -> DataFrame:
    """Return sessions with their times as text."""
    edges = [F.date_format(f"session_{edge}", "HH:mm:ss").alias(edge) for edge in ("start", "end")]
    return sessions.select("user_id", *edges, "action_count", "amount_total")


def run(lab: Lab) -> Iterator[str]:
    """Show the sessions with one gap for all, and with a longer gap for tablets."""
    actions = lab.stream(SCHEMA, "actions.json", "later.json")
    for name, device_gaps in (("five minutes", []), ("tablets have thirty", [("tablet", "30 minutes")])):
        yield name
        sessions = user_sessions(actions, "5 minutes", "10 minutes", device_gaps)
        yield from lab.batches(shown(sessions), "append", name)
    update = user_sessions(actions, "5 minutes", "10 minutes").writeStream.outputMode("update").format("noop")
    yield f"update: {outcome(update.start)}"
