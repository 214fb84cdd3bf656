"""What was in every topic?

Topics: all -> Parquet files by date and hour of append time. No window, no watermark, no state.

Each topic has a folder below the archive, with a column for each field of its record. Records that
cannot be read lie beside the others (`kind=unreadable` beside `kind=readable`), with their value
and the reason. The file sink writes each record exactly once for readers that know its log. Other
readers read what `python -m spark_jobs compact` makes of it: one file per hour.

Limitations: until they are compacted there are many small files, one per topic, hour and batch.
That is why a batch lasts a minute by default, and the archive is a minute behind. The hour is that
of the append time, so an event may have happened in an earlier hour.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.topics import ALL, DEAD_LETTERS, INCIDENTS, Topic
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import DEPLOYMENT_SETTING, JobOptions

# Kept as text: the fields of dead letters have the names of Kafka's own columns, and a record
# without a value, which removes an incident from the topic, is not malformed.
_AS_TEXT = (DEAD_LETTERS, INCIDENTS)
_TOPICS = tuple(replace(topic, record=None) if topic in _AS_TEXT else topic for topic in ALL)
_KAFKA_COLUMNS = ("key", "value", "partition", "offset", "timestamp", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `archive`."""

    archive: Annotated[
        str, "Folder or URL below which each topic has a folder.", DEPLOYMENT_SETTING
    ] = ".rackstream/archive"
    archive_seconds: Annotated[
        float,
        "Least time between the starts of two micro-batches of the archive, instead of "
        "--batch-seconds: each writes a file per topic and read task.",
        DEPLOYMENT_SETTING,
    ] = 60.0


def archive_rows(records: DataFrame) -> DataFrame:
    """Return the rows of the archive.

    In: Kafka's columns, and the fields and `error` of `parsing.parse` where the topic's record is
    known.

    Out: `kind` (`readable` or `unreadable`), `date` and `hour` (UTC, of the append time), Kafka's
    columns and the record's fields. `value` is null where the fields hold it; it is in
    `value_bytes` when it is not UTF-8.
    """
    parsed = "error" in records.columns
    error = F.col("error") if parsed else F.lit(None).cast("string")
    fields = [
        name for name in records.columns if name not in (*_KAFKA_COLUMNS, "topic", "timestampType")
    ]
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


def _records(records: DataFrame, _topic: Topic, _options: Options) -> DataFrame:
    return archive_rows(records)


def _landing_folder(options: Options) -> str:
    return f"{options.archive}/landing"


JOB = Job(
    name="archive",
    sources=_TOPICS,
    sink=None,
    state_version="v1",
    options=Options,
    query_per_source=True,
    is_deferred=True,
    output_folder=_landing_folder,
    interval_option="archive_seconds",
    state_partitions=0,
    plans=dict.fromkeys(
        (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), Plan("micro-batch", _records, ("append",))
    ),
)
