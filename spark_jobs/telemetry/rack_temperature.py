"""How warm is each rack, and the whole fleet?

Topics: `rack-readings` -> `rack-temperature`. Sliding windows of 10 minutes, every 5 minutes.
Watermark: 10 minutes.

Average, minimum, maximum and count of the temperatures in each window, per rack and for the scope
`fleet`. In update mode a later record for a key replaces the earlier one. In append mode a window
is written once, after the watermark has passed its end.

Limitations: it counts records, so a duplicate counts. A reading is dropped when all its windows are
closed, without a log line. In append mode the last windows stay open until a newer reading arrives.
"""

from dataclasses import dataclass
from typing import Annotated

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.constants import FLEET_SCOPE, WATERMARK, WINDOW, WINDOW_SLIDE
from events.times import to_interval
from events.topics import RACK_READINGS, RACK_TEMPERATURE
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.options import JobOptions
from spark_jobs.runtime.panes import pane_batches, summaries, summary_of_one
from spark_jobs.runtime.parsing.batches import Batches
from spark_jobs.runtime.windows import OutputMode, interval_us, window_bounds, window_key

_KEYS, _VALUE = ("rack_id",), "temperature_c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `rack_temperature`."""

    window: Annotated[str, "Length of a window."] = to_interval(WINDOW)
    slide: Annotated[str, "Time between the starts of two windows."] = to_interval(WINDOW_SLIDE)
    watermark: Annotated[str, "How late a reading may be and still count."] = to_interval(WATERMARK)
    output_mode: OutputMode = "update"


def rack_temperatures(readings: DataFrame, window: str, slide: str, watermark: str) -> DataFrame:
    """Return one row per scope and window, with the columns of `RackTemperature`.

    In: `rack_id`, `event_time`, `temperature_c`. A window is half open: an event at its end belongs
    to the next window.
    """
    one = summary_of_one(_VALUE)
    summaries_of_one = readings.select("rack_id", *[one[name].alias(name) for name in one])
    return _temperatures(summaries_of_one, window, slide, watermark)


def _temperatures(summaries: DataFrame, window: str, slide: str, watermark: str) -> DataFrame:
    # A rack may be named like the fleet; its readings count once there.
    scopes = F.array_distinct(F.array(F.lit(FLEET_SCOPE), "rack_id"))
    scoped = summaries.withWatermark("event_time", watermark).withColumn("scope", F.explode(scopes))
    grouped = scoped.groupBy("scope", F.window("event_time", window, slide).alias("window")).agg(
        F.sum("event_count").alias("reading_count"),
        (F.sum("total") / F.sum("event_count")).alias("temperature_c_avg"),
        F.min("lowest").alias("temperature_c_min"),
        F.max("highest").alias("temperature_c_max"),
    )
    return grouped.select(
        "scope",
        *window_bounds(),
        "reading_count",
        "temperature_c_avg",
        "temperature_c_min",
        "temperature_c_max",
    )


def _real_time(readings: DataFrame, options: Options) -> DataFrame:
    return _to_records(
        rack_temperatures(readings, options.window, options.slide, options.watermark)
    )


def _batches(spark: SparkSession, options: Options) -> Batches:
    lengths_us = interval_us(spark, options.window), interval_us(spark, options.slide)
    return pane_batches(_KEYS, _VALUE, lengths_us)


def _micro_batch(readings: DataFrame, options: Options) -> DataFrame:
    of_racks = summaries(readings, _KEYS, _VALUE)
    return _to_records(_temperatures(of_racks, options.window, options.slide, options.watermark))


def _to_records(temperatures: DataFrame) -> DataFrame:
    key = F.concat_ws("|", "scope", window_key())
    return temperatures.select(*to_record(key, *temperatures.columns))


_PANES = Plan("micro-batch", _micro_batch, ("update", "append"), batches=_batches)
JOB = Job(
    name="rack_temperature",
    sources=(RACK_READINGS,),
    sink=RACK_TEMPERATURE,
    by_event_time=True,
    state_version="v2",
    options=Options,
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: _PANES,
        Trigger.AVAILABLE_NOW: _PANES,
    },
)
