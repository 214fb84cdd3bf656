"""How often is each thing done, or how much does each user do? Topics: `user-actions` to `action-counts`.

Counts of actions, by `action` or by `user_id`, over windows of 10 minutes; `--window 1h` and `--slide` make them longer
and let them overlap. Watermark 10 minutes. In update mode a later record for a key replaces the earlier; in append mode
a window is written once, after the watermark has passed its end; in complete mode every batch writes every window
there has ever been.

What it gets wrong: it counts records, so an action that was sent twice counts twice. An action whose window is closed
is dropped (the progress has how many). In append mode the last windows stay open until a newer action arrives. Complete
mode never drops a window nor an action, and its state and output grow for ever.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.topics import ACTION_COUNTS, USER_ACTIONS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.kafka import INSTANT_FORMAT, to_record
from spark_jobs.late import with_event_times_counted
from spark_jobs.triggers import Trigger


def action_counts(actions: DataFrame, by: str, window: str, slide: str | None, watermark: str) -> DataFrame:
    """Return one row per window and group, with the columns of `ActionCount`.

    In: `event_time`, and the column `by`: `action` or `user_id`. A window begins every `slide`, by default when the one
    before ends, and is half open: an action at its end belongs to the next. A static table gives the same numbers.
    """
    grouped = (
        actions.withWatermark("event_time", watermark)
        .groupBy(by, F.window("event_time", window, slide).alias("window"))
        .agg(F.count("*").alias("action_count"))
    )
    return grouped.select(
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        *[
            F.col(name) if name == by else F.lit(None).cast("string").alias(name)
            for name in ("action", "user_id")
        ],
        "action_count",
    )


def _records(actions: DataFrame, options: JobOptions) -> DataFrame:
    counted = with_event_times_counted(actions, options.slide or options.window)
    counts = action_counts(counted, options.by, options.window, options.slide, options.lateness)
    moments = [
        F.date_format(name, INSTANT_FORMAT["timestampFormat"]) for name in ("window_start", "window_end")
    ]
    return counts.select(*to_record(F.concat_ws("|", *moments, options.by), *counts.columns))


_PLAN = Plan(
    "micro-batch",
    _records,
    ("update", "append", "complete"),
    fields=("event_time", "action", "user_id"),
)

JOB = Job(
    name="action_counts",
    source=USER_ACTIONS,
    sink=ACTION_COUNTS,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("by", "window", "slide", "watermark", "output_mode"),
    plans={
        Trigger.MICRO_BATCH: _PLAN,
        Trigger.AVAILABLE_NOW: _PLAN,
    },
)
