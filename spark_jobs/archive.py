"""What was in every topic? Topics: all, to Parquet by date and hour of append time. No state.

Each topic has a folder below `--archive`, with a column for each field of its record. Records that cannot be read lie
beside the others (`kind=unreadable` beside `kind=readable`), with their value and the reason. The sink writes
each record exactly once, for readers that know its log: read what `python -m spark_jobs compact` made of it, one file an
hour, which any reader can.

What it gets wrong: many small files, one for each topic, hour and batch, until they are compacted; so a batch a minute,
by default, and an archive that is a minute behind. The hour is that of the append time: an event may have
happened in an earlier one.
"""

from dataclasses import replace
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.topics import ALL, DEAD_LETTERS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.triggers import Trigger

# Dead letters have fields of the same names as Kafka's own columns: they are kept as text.
_TOPICS = tuple(replace(topic, record=None) if topic is DEAD_LETTERS else topic for topic in ALL)
_OF_KAFKA = ("key", "value", "partition", "offset", "timestamp", "error")


def archived(records: DataFrame) -> DataFrame:
    """Return `kind`, `date` and `hour` (UTC, of the append time), Kafka's columns, and the fields of the record.

    In: Kafka's columns, and the fields and `error` of `parsing.parse` where the topic's record is known. `kind` is
    `readable` or `unreadable`. `value` is there where it is not in the fields: as text in `value`, in `value_bytes` when
    it is not UTF-8.
    """
    parsed = "error" in records.columns
    error = F.col("error") if parsed else F.lit(None).cast("string")
    fields = [name for name in records.columns if name not in (*_OF_KAFKA, "topic", "timestampType")]
    readable = error.isNull()
    raw = F.when(~readable, F.col("value")) if parsed else F.col("value")
    return records.select(
        F.when(readable, "readable").otherwise("unreadable").alias("kind"),
        F.date_format("timestamp", "yyyy-MM-dd").alias("date"),
        F.date_format("timestamp", "HH").alias("hour"),
        "partition",
        "offset",
        F.col("timestamp").alias("append_time"),
        F.try_validate_utf8(F.col("key").cast("string")).alias("key"),
        *[F.when(readable, F.col(name)).alias(name) for name in fields],
        error.alias("error"),
        F.try_validate_utf8(raw.cast("string")).alias("value"),
        F.when(~F.is_valid_utf8(raw), raw).alias("value_bytes"),
    )


def _records(records: DataFrame, _options: JobOptions) -> DataFrame:
    return archived(records)


JOB = Job(
    name="archive",
    source=_TOPICS[0],
    more_sources=_TOPICS[1:],
    sink=None,
    rules_version="v1",
    micro_batch=timedelta(minutes=1),
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
