"""What did a user do at a stretch? Topics: `user-actions` to `user-sessions`.

A session is a user's actions of which none is more than 30 minutes after the one before (`--gap`, and `--device-gap`
for a device of its own patience). It is written once, when the watermark of 10 minutes has passed its end: the gap
after its last action. Repeats are removed by `event_id` before, so they neither count nor prolong.

What it gets wrong: an action that is older than the watermark is dropped, whatever session it belongs to; one that
would have joined two sessions leaves them two. The last session of each user stays open until newer actions of anyone
have moved the watermark past its end.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.topics import USER_ACTIONS, USER_SESSIONS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.kafka import to_record
from spark_jobs.triggers import Trigger


def user_sessions(
    actions: DataFrame, gap: str, watermark: str, device_gaps: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """Return one row per session, with the columns of `UserSession`; append mode only.

    In: `event_id`, `event_time`, `user_id`, `device`, `action`, `amount`. An action is followed by the gap of its
    device, by default `gap`; another one of the user until then, that moment included, belongs to the same session.
    """
    distinct = actions.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(["event_id"])
    session = F.session_window("event_time", _gap(gap, device_gaps)).alias("session")
    amount = F.when(F.col("action") == "purchase", F.col("amount"))
    grouped = distinct.groupBy("user_id", session).agg(
        F.count("*").alias("action_count"),
        F.coalesce(F.sum(amount), F.lit(0).cast("decimal(18,2)")).alias("amount_total"),
    )
    return grouped.select(
        "user_id",
        F.col("session.start").alias("session_start"),
        F.col("session.end").alias("session_end"),
        "action_count",
        "amount_total",
    )


def _gap(gap: str, device_gaps: Sequence[tuple[str, str]]) -> Column | str:
    if not device_gaps:
        return gap
    chosen = F.lit(gap)
    for device, own in device_gaps:
        chosen = F.when(F.col("device") == device, F.lit(own)).otherwise(chosen)
    return chosen


def _records(actions: DataFrame, options: JobOptions) -> DataFrame:
    sessions = user_sessions(actions, options.gap, options.lateness, options.device_gaps)
    return sessions.select(*to_record(F.col("user_id"), *sessions.columns))


JOB = Job(
    name="user_sessions",
    source=USER_ACTIONS,
    sink=USER_SESSIONS,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("gap", "device_gaps", "watermark"),
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
