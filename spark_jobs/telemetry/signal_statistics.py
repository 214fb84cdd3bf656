"""How strong is the signal of each device type and rack?

Topics: `rack-readings` -> `signal-statistics`. Windows of one minute. Watermark: 10 minutes.
A batch every 30 seconds.

Count of readings, and minimum, maximum and average of their signal strength in each window, once
per device type and once per rack. In update mode a later record for a key replaces the earlier one.
In append mode a window is written once, after the watermark has passed its end.

Limitations: it counts records, so a duplicate counts. A reading is dropped when its window is
closed, without a log line. A rack without a reading in a window has no row for it, and not one with
a count of 0. In append mode the last windows stay open until a newer reading arrives.
"""

from dataclasses import dataclass
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.constants import SIGNAL_WINDOW, WATERMARK
from events.times import to_interval
from events.topics import RACK_READINGS, SIGNAL_STATISTICS
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.options import DEPLOYMENT_SETTING, JobOptions
from spark_jobs.runtime.windows import OutputMode, window_bounds, window_key

_GROUPS = ("device_type", "rack_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `signal_statistics`."""

    window: Annotated[str, "Length of a window."] = to_interval(SIGNAL_WINDOW)
    watermark: Annotated[str, "How late a reading may be and still count."] = to_interval(WATERMARK)
    output_mode: OutputMode = "update"
    statistics_seconds: Annotated[
        float,
        "Least time between the starts of two micro-batches, instead of --batch-seconds: nobody "
        "waits for a statistic, and each batch costs processor time.",
        DEPLOYMENT_SETTING,
    ] = 30.0


def signal_statistics(readings: DataFrame, window: str, watermark: str) -> DataFrame:
    """Return one row per window and group, with the columns of `SignalStatistics`.

    In: `device_type`, `rack_id`, `event_time`, `signal_strength`. Each reading counts in two
    groups: its device type and its rack; the column of the other one is null. A window is half
    open: an event at its end belongs to the next window.
    """
    groups = [
        F.struct(*[(F.col(name) if name == group else F.lit(None)).alias(name) for name in _GROUPS])
        for group in _GROUPS
    ]
    grouped = (
        readings.withWatermark("event_time", watermark)
        .select(F.inline(F.array(*groups)), "event_time", "signal_strength")
        .groupBy(*_GROUPS, F.window("event_time", window).alias("window"))
        .agg(
            F.count("*").alias("reading_count"),
            F.min("signal_strength").alias("signal_strength_min"),
            F.max("signal_strength").alias("signal_strength_max"),
            F.avg("signal_strength").alias("signal_strength_avg"),
        )
    )
    return grouped.select(
        *window_bounds(),
        *_GROUPS,
        "reading_count",
        "signal_strength_min",
        "signal_strength_max",
        "signal_strength_avg",
    )


def _records(readings: DataFrame, options: Options) -> DataFrame:
    statistics = signal_statistics(readings, options.window, options.watermark)
    # A rack may have the name of a device type, so the key names the group, too.
    group = F.when(F.col("rack_id").isNull(), "device_type").otherwise("rack_id")
    key = F.concat_ws("|", window_key(), group, F.coalesce(*_GROUPS))
    return statistics.select(*to_record(key, *statistics.columns))


_FIELDS = (*_GROUPS, "event_time", "signal_strength")
_MICRO_BATCH = Plan("micro-batch", _records, ("update", "append"), fields=_FIELDS)
JOB = Job(
    name="signal_statistics",
    sources=(RACK_READINGS,),
    sink=SIGNAL_STATISTICS,
    by_event_time=True,
    state_version="v1",
    options=Options,
    interval_option="statistics_seconds",
    plans={
        Trigger.MICRO_BATCH: _MICRO_BATCH,
        Trigger.REAL_TIME: Plan("real-time", _records, ("update",)),
        Trigger.AVAILABLE_NOW: _MICRO_BATCH,
    },
)
