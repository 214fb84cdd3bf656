"""Session windows: a session ends when no event arrives within the gap.

A session begins with an event and ends one gap after its last event. An event that lies within the
gap extends a session or merges two. The gap may depend on the row.

Notice: The second event of user3 came exactly one gap after the first, and still belongs to the
session. The event of user1 at 10:08:30 arrived last and merged two sessions. A tablet's gap of
thirty minutes gives user2 one session until 11:00, which the watermark has not reached. In append
mode a session is written when the watermark has passed its end. Update mode is refused: when two
sessions merge, it could not take back the rows already written. Complete mode is allowed, but keeps
every session for ever (lesson state_cleanup).
In production: `user_sessions` is this function, with a gap of 30 minutes.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, outcome
from spark_jobs.clickstream.user_sessions import user_sessions

SCHEMA = (
    "event_id string, user_id string, event_time timestamp, device string, action string,"
    " amount decimal(18,2)"
)


def with_text_times(sessions: DataFrame) -> DataFrame:
    """Format the start and end of each session."""
    edges = [F.date_format(f"session_{edge}", "HH:mm:ss").alias(edge) for edge in ("start", "end")]
    return sessions.select("user_id", *edges, "action_count", "amount_total")


def run(context: LessonContext) -> Iterator[str]:
    """Show sessions with one gap for all and with a longer gap for tablets; try other modes."""
    actions = context.stream(SCHEMA, "actions.json", "later.json")
    for name, device_gaps in (
        ("five minutes", []),
        ("tablets have thirty", [("tablet", "30 minutes")]),
    ):
        yield name
        sessions = user_sessions(actions, "5 minutes", "10 minutes", device_gaps)
        yield from context.run_batches(with_text_times(sessions), "append", name)
    sessions = user_sessions(actions, "5 minutes", "10 minutes")
    for mode in ("update", "complete"):
        yield f"{mode}: {outcome(sessions.writeStream.outputMode(mode).format('noop').start)}"
