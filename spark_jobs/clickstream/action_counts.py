"""How often is each action done, or how much does each user do?

Topics: `user-actions` -> `action-counts`. Windows of 10 minutes; `--window` sets their length, and
`--slide` lets them overlap. Watermark: 10 minutes.

Counts of actions per window, by `action` or by `user_id`. In update mode a later record for a key
replaces the earlier one. In append mode a window is written once, after the watermark has passed
its end. In complete mode every batch writes every window since the start.

Limitations: it counts records, so a duplicate counts. An action whose window is closed is dropped;
the query's progress has their number. In append mode the last windows stay open until a newer
action arrives. Complete mode never drops a window or an action, so its state and output grow
without bound.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.constants import WATERMARK, WINDOW
from events.times import to_interval
from events.topics import ACTION_COUNTS, USER_ACTIONS
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.late_records import observe_event_times
from spark_jobs.runtime.options import JobOptions
from spark_jobs.runtime.windows import window_bounds, window_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `action_counts`."""

    group_by: Annotated[Literal["action", "user_id"], "What actions are counted by."] = "action"
    window: Annotated[str, "Length of a window."] = to_interval(WINDOW)
    slide: Annotated[
        str | None,
        "Time between the starts of two windows; by default each starts when the last one ends.",
    ] = None
    watermark: Annotated[str, "How late an action may be and still count."] = to_interval(WATERMARK)
    output_mode: Annotated[
        Literal["update", "append", "complete"],
        "update: write a window whenever it changes. append: write it once, when it is closed. "
        "complete: write all windows in every batch.",
    ] = "update"


def action_counts(
    actions: DataFrame, group_by: str, window: str, slide: str | None, watermark: str
) -> DataFrame:
    """Return one row per window and group, with the columns of `ActionCount`.

    In: `event_time`, and the column that `group_by` names, `action` or `user_id`. A window starts
    every `slide`, by default when the one before ends. It is half open: an action at its end
    belongs to the next window. A static table gives the same counts.
    """
    grouped = (
        actions.withWatermark("event_time", watermark)
        .groupBy(group_by, F.window("event_time", window, slide).alias("window"))
        .agg(F.count("*").alias("action_count"))
    )
    return grouped.select(
        *window_bounds(),
        *[
            F.col(name) if name == group_by else F.lit(None).cast("string").alias(name)
            for name in ("action", "user_id")
        ],
        "action_count",
    )


def _records(actions: DataFrame, options: Options) -> DataFrame:
    observed = observe_event_times(actions, options.slide or options.window)
    counts = action_counts(
        observed, options.group_by, options.window, options.slide, options.watermark
    )
    key = F.concat_ws("|", window_key(), options.group_by)
    return counts.select(*to_record(key, *counts.columns))


_PLAN = Plan(
    "micro-batch",
    _records,
    ("update", "append", "complete"),
    fields=("event_time", "action", "user_id"),
)

JOB = Job(
    name="action_counts",
    sources=(USER_ACTIONS,),
    sink=ACTION_COUNTS,
    by_event_time=True,
    state_version="v1",
    options=Options,
    plans={
        Trigger.MICRO_BATCH: _PLAN,
        Trigger.AVAILABLE_NOW: _PLAN,
    },
)
