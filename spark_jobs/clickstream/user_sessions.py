"""Which actions of a user belong to one session?

Topics: `user-actions` -> `user-sessions`. Session windows with a gap of 30 minutes (`--gap`, and
`--device-gap` for single devices). Watermark: 10 minutes.

A session is a sequence of a user's actions in which none comes later than the gap after the one
before. It is written once, when the watermark has passed its end: the gap after its last action.
Duplicates are removed by `event_id` before, so they neither count nor extend a session.

Limitations: an action that is older than the watermark is dropped, whichever session it belongs to;
two sessions that it would have joined stay two. The last session of each user stays open until
newer actions of any user have moved the watermark past its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.cli import UserFacingError
from events.constants import SESSION_GAP, WATERMARK
from events.times import interval_ms, to_interval
from events.topics import USER_ACTIONS, USER_SESSIONS
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.options import JobOptions, Pairs

LONGEST_GAP = "1000 days"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `user_sessions`."""

    gap: Annotated[str, "A session ends this long after its last action."] = to_interval(
        SESSION_GAP
    )
    device_gap: Annotated[
        Pairs, "Another gap for a device, such as phone='10 minutes'; may be repeated."
    ] = ()
    watermark: Annotated[str, "How late an action may be and still count."] = to_interval(WATERMARK)

    def __post_init__(self) -> None:
        """Raise `UserFacingError` for a gap with which Spark would drop actions silently."""
        own = [(f"--device-gap {device}=", gap) for device, gap in self.device_gap]
        for before, gap in [("--gap ", self.gap), *own]:
            if not _is_gap(gap):
                raise UserFacingError(
                    f"{before}{gap}: write a gap as 10 minutes or 1 hour 30 minutes, above 0 and "
                    f"at most {LONGEST_GAP}."
                )


def user_sessions(
    actions: DataFrame, gap: str, watermark: str, device_gaps: Sequence[tuple[str, str]] = ()
) -> DataFrame:
    """Return one row per session, with the columns of `UserSession`; append mode only.

    In: `event_id`, `event_time`, `user_id`, `device`, `action`, `amount`. The gap after an action
    is that of its device, by default `gap`. The user's next action belongs to the same session if
    it comes until the end of the gap, that moment included.
    """
    distinct = actions.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(
        ["event_id"]
    )
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


def _is_gap(text: str) -> bool:
    try:
        return 0 < interval_ms(text) <= interval_ms(LONGEST_GAP)
    except ValueError:
        return False


def _gap(gap: str, device_gaps: Sequence[tuple[str, str]]) -> Column | str:
    if not device_gaps:
        return gap
    column = F.lit(gap)
    for device, device_gap in device_gaps:
        column = F.when(F.col("device") == device, F.lit(device_gap)).otherwise(column)
    return column


def _records(actions: DataFrame, options: Options) -> DataFrame:
    sessions = user_sessions(actions, options.gap, options.watermark, options.device_gap)
    return sessions.select(*to_record(F.col("user_id"), *sessions.columns))


JOB = Job(
    name="user_sessions",
    sources=(USER_ACTIONS,),
    sink=USER_SESSIONS,
    by_event_time=True,
    state_version="v1",
    options=Options,
    plans=dict.fromkeys(
        (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), Plan("micro-batch", _records, ("append",))
    ),
)
