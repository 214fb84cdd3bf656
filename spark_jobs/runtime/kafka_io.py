"""Read topics and write to topics and files, in the same way for all jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from events.settings import Settings
from events.topics import ALERTS, Topic
from events.triggers import Trigger

RECORD = (
    T.StructType()
    .add("key", T.BinaryType())
    .add("value", T.BinaryType())
    .add("partition", T.IntegerType())
    .add("offset", T.LongType())
    .add("timestamp", T.TimestampType())
)
"""The columns of a Kafka record that the jobs use; `timestamp` is its append time."""

INSTANT_FORMAT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "ignoreNullFields": "false"}
"""How JSON is written: times as in the contract (the session is in UTC), nulls included."""

DEFAULT_LINGER_MS = "5"
"""A wait of at most 5 ms saves most requests to the broker."""
_LINGER_MS = {ALERTS: "0"}
"""How long a record waits for others before it is sent: alerts are few and urgent."""
RECORDS_PER_POLL = 5000
"""More than a fetch of 1 MiB holds.

After each poll Spark asks the broker for both ends of the partition. With the 500 records of
Kafka's default this takes a quarter of the processor time of reading, and half of the broker's.
"""
LOW_PRIORITY_FETCH_BYTES = 1_000_000
"""The broker answers a low-priority reader when so much is there, or after a second."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a topic is read.

    `starting_offsets` count where there is no checkpoint; `records_per_batch` is the most that one
    micro-batch reads (None: everything), and `tasks` the most tasks in which it does so (None: one
    for each partition).
    """

    starting_offsets: str = "earliest"
    records_per_batch: int | None = 1_000_000
    tasks: int | None = None


def read_topic(
    spark: SparkSession,
    settings: Settings,
    topic: Topic,
    trigger: Trigger,
    options: ReadOptions,
    *,
    low_priority: bool = False,
) -> DataFrame:
    """Return a topic as a stream with Kafka's columns.

    These are `key`, `value`, `partition`, `offset`, `timestamp`, ... A `low_priority` reader gets
    records up to a second late, and asks the broker for them far less often.
    """
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap_servers)
        .option("subscribe", settings.topic(topic))
        .option("startingOffsets", options.starting_offsets)
        .option("kafka.max.poll.records", RECORDS_PER_POLL)
    )
    if low_priority:
        reader = reader.option("kafka.fetch.min.bytes", LOW_PRIORITY_FETCH_BYTES).option(
            "kafka.fetch.max.wait.ms", 1000
        )
    # Real-time batches end by the clock; Spark refuses a limit for them.
    if trigger is not Trigger.REAL_TIME and options.records_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.records_per_batch)
    records = reader.load()
    # In real time a task for each partition waits for its records, all at once.
    if trigger is Trigger.REAL_TIME or options.tasks is None:
        return records
    return records.coalesce(options.tasks)


def to_record(key: Column, *fields: Column | str) -> list[Column]:
    """Return the two columns of a Kafka record: `key`, and `value` as one JSON object."""
    return [key.alias("key"), F.to_json(F.struct(*fields), INSTANT_FORMAT).alias("value")]


def header_column(headers: Mapping[str, Column]) -> Column:
    """Return the column `headers` of a Kafka record, of the headers' texts by name."""
    pairs = [
        F.struct(F.lit(name).alias("key"), F.encode(text, "utf-8").alias("value"))
        for name, text in headers.items()
    ]
    return F.array(*pairs).cast("array<struct<key: string, value: binary>>").alias("headers")


def wall_clock_ms() -> Column:
    """Return the wall clock for each row, in epoch milliseconds.

    Spark's `current_timestamp()` is the start of the batch instead.
    """
    return F.expr("cast(java_method('java.lang.System', 'currentTimeMillis') as bigint)")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """How a query runs: its name, checkpoint, output mode, trigger and length of a batch."""

    name: str
    checkpoint: str
    output_mode: str
    trigger: Trigger
    batch: timedelta


def write_topic(
    records: DataFrame, settings: Settings, topic: Topic, options: QueryOptions
) -> StreamingQuery:
    """Start the query that writes records to a topic, at least once.

    In: `key`, `value`, and `headers` if there are any.
    """
    writer = (
        records.writeStream.format("kafka")
        .queryName(options.name)
        .option("kafka.bootstrap.servers", settings.kafka_bootstrap_servers)
        .option("topic", settings.topic(topic))
        .option("checkpointLocation", options.checkpoint)
        .option("kafka.linger.ms", _LINGER_MS.get(topic, DEFAULT_LINGER_MS))
        .outputMode(options.output_mode)
    )  # fmt: skip
    return _triggered(writer, options.trigger, options.batch).start()


def write_files(records: DataFrame, folder: str, options: QueryOptions) -> StreamingQuery:
    """Start the query that appends rows to Parquet files in a folder, and return the query.

    In: `kind`, `date` and `hour`, which partition the files into folders, and the columns to write.
    Readers that follow the sink's log see each row exactly once.
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
