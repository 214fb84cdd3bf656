"""How warm is each rack, and the whole fleet? Topics: `rack-readings` to `rack-temperature`.

Average, minimum, maximum and count of temperatures over sliding windows of 10 minutes, every 5 minutes, with a
watermark of 10 minutes, per rack and for the scope `fleet`. In update mode a later record for a key replaces the
earlier; in append mode a window is written once, after the watermark has passed its end.

What it gets wrong: it counts records, so a reading that was sent twice counts twice. A reading that is later than the
watermark is dropped without a word. In append mode the last windows stay open until a newer reading arrives.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.topics import RACK_READINGS, RACK_TEMPERATURE
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.kafka import INSTANT_FORMAT, to_record
from spark_jobs.triggers import Trigger

FLEET = "fleet"


def rack_temperatures(readings: DataFrame, window: str, slide: str, watermark: str) -> DataFrame:
    """Return one row per scope and window, with the columns of `RackTemperature`.

    In: `rack_id`, `event_time`, `temperature_c`. Windows are half open: an event at the end belongs to the next.
    """
    scoped = readings.withWatermark("event_time", watermark).select(
        F.explode(F.array(F.lit(FLEET), "rack_id")).alias("scope"), "event_time", "temperature_c"
    )
    grouped = scoped.groupBy("scope", F.window("event_time", window, slide).alias("window")).agg(
        F.count("*").alias("reading_count"),
        F.avg("temperature_c").alias("temperature_c_avg"),
        F.min("temperature_c").alias("temperature_c_min"),
        F.max("temperature_c").alias("temperature_c_max"),
    )
    return grouped.select(
        "scope",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "reading_count",
        "temperature_c_avg",
        "temperature_c_min",
        "temperature_c_max",
    )


def _records(readings: DataFrame, options: JobOptions) -> DataFrame:
    slide = options.slide or options.window
    temperatures = rack_temperatures(readings, options.window, slide, options.lateness)
    moments = F.struct(
        F.date_format("window_start", INSTANT_FORMAT["timestampFormat"]).alias("start"),
        F.date_format("window_end", INSTANT_FORMAT["timestampFormat"]).alias("end"),
    )
    key = F.concat_ws("|", "scope", moments.getField("start"), moments.getField("end"))
    return temperatures.select(*to_record(key, *[F.col(name) for name in temperatures.columns]))


_FIELDS = ("rack_id", "event_time", "temperature_c")
JOB = Job(
    name="rack_temperature",
    source=RACK_READINGS,
    sink=RACK_TEMPERATURE,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("window", "slide", "watermark", "output_mode"),
    defaults={"slide": "5 minutes"},
    plans={
        Trigger.REAL_TIME: Plan("real-time", _records, ("update",)),
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("update", "append"), fields=_FIELDS),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("update", "append"), fields=_FIELDS),
    },
)
