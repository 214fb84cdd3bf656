"""Reading a topic and writing to one, the same way for all jobs."""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from events.settings import Settings
from events.topics import ALERTS, Topic
from spark_jobs.triggers import Trigger

RECORD = (
    T.StructType()
    .add("key", T.BinaryType())
    .add("value", T.BinaryType())
    .add("partition", T.IntegerType())
    .add("offset", T.LongType())
    .add("timestamp", T.TimestampType())
)
"""What the jobs take of a Kafka record; `timestamp` is when it was appended."""

INSTANT_FORMAT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "ignoreNullFields": "false"}
"""How JSON is written: times as in the contract (the session is in UTC), nulls written out."""


_LINGER_MS = {ALERTS: "0"}
"""How long a record waits for others to go with: alerts are few and urgent."""
PATIENT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a topic is read: from where when there is no checkpoint, and how much in one micro-batch (None: all)."""

    starting_offsets: str = "earliest"
    records_per_batch: int | None = 1_000_000


def read_topic(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    trigger: Trigger,
    options: ReadOptions,
    *,
    patient: bool = False,
) -> DataFrame:
    """Return a topic as a stream with Kafka's columns: `key`, `value`, `partition`, `offset`, `timestamp`, ...

    A `patient` reader is content with records a second old, and asks the broker for them so much more rarely.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap_servers)
        .option("subscribe", settings.topic(topic))
        .option("startingOffsets", options.starting_offsets)
    )
    if patient:
        reader = reader.option("kafka.fetch.min.bytes", PATIENT_BYTES).option("kafka.fetch.max.wait.ms", 1000)
    # Real-time batches end by the clock, and refuse a limit.
    if trigger is not Trigger.REAL_TIME and options.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.records_per_batch)
    return reader.load()


def to_record(key: Column, *fields: Column | str) -> list[Column]:
    """Return the two columns that a topic takes: `key`, and `value` as one JSON object of the fields."""
    return [key.alias("key"), F.to_json(F.struct(*fields), INSTANT_FORMAT).alias("value")]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query runs: its name, where its checkpoint lies, what it emits and when."""

    name: str
    checkpoint: str
    output_mode: str
    trigger: Trigger
    batch: timedelta


def write_topic(
    records: DataFrame, settings: Settings, topic: Topic, options: QueryOptions
) -> StreamingQuery:
    """Start the query that writes `key` and `value`, and `headers` if there are any, to a topic, at least once.

    Where the records have a column `topic` (a name without prefix), each goes to its own.
    """
    headers = [name for name in records.columns if name == "headers"]
    name = F.col("topic") if "topic" in records.columns else F.lit(topic.name)
    writer = (
        records.select(F.concat(F.lit(settings.topic_prefix), name).alias("topic"), "key", "value", *headers)
        .writeStream.format("kafka")
        .queryName(options.name)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap_servers)
        .option("checkpointLocation", options.checkpoint)
        .option("kafka.linger.ms", _LINGER_MS.get(topic, "5"))  # 5 ms at most, for a fraction of the requests
        .outputMode(options.output_mode)
    )  # fmt: skip
    return _triggered(writer, options.trigger, options.batch).start()


def write_files(records: DataFrame, folder: str, options: QueryOptions) -> StreamingQuery:
    """Start the query that appends rows to Parquet in a folder, exactly once for readers of its log, and return it.

    In: `kind`, `date` and `hour`, by which the files lie in folders, and the columns to be written.
    """
    writer = (
        records.writeStream.format("parquet")
        .queryName(options.name)
        .option("path", folder)
        .option("checkpointLocation", options.checkpoint)
        .partitionBy("kind", "date", "hour")
        .outputMode("append")
    )  # fmt: skip
    return _triggered(writer, options.trigger, options.batch).start()


def _triggered(writer: DataStreamWriter, trigger: Trigger, batch: timedelta) -> DataStreamWriter:
    interval = f"{int(batch.total_seconds() * 1000)} milliseconds"
    match trigger:
        case Trigger.REAL_TIME:
            return writer.trigger(realTime=interval)  # type: ignore[call-overload, no-any-return] # not in its types yet
        case Trigger.MICRO_BATCH:
            return writer.trigger(processingTime=interval)
        case Trigger.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
