"""Build small tables with the columns that Spark's Kafka source returns, and run plans on them."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from events.records import RackReading, encode
from events.triggers import Trigger
from spark_jobs.runtime.job import ConfiguredJob, Job
from spark_jobs.runtime.parsing._arrow import parse_with_arrow
from spark_jobs.runtime.parsing._strict import parse_strictly
from spark_jobs.runtime.plan_input import plan_input
from tests.builders import reading

Reader = Callable[[DataFrame, type[msgspec.Struct]], DataFrame]
READERS: list[Reader] = [parse_strictly, parse_with_arrow]
"""The strict and the Arrow parser, which must agree."""
both_readers = pytest.mark.parametrize("reader", READERS)

APPENDED = datetime(2026, 11, 18, 12, 0, 0, tzinfo=UTC)
"""The append time of every record: later than T0, so that no reading is ahead of it."""

_VALID = encode(reading(1))


def kafka_table(
    spark: SparkSession,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None = None,
    append_ms: Sequence[int] | None = None,
    first_offset: int = 0,
) -> DataFrame:
    """Return records of partition 0, in one task, so that their order is kept.

    `append_ms` are append times in epoch milliseconds.
    """
    count = len(values)
    appended = [APPENDED] * count
    if append_ms is not None:
        appended = [datetime.fromtimestamp(at / 1000, UTC) for at in append_ms]
    table = pa.table(
        {
            "key": pa.array(keys or [b"rack-0001"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
            "timestamp": pa.array(appended, pa.timestamp("us", "UTC")),
        }
    )
    return spark.createDataFrame(table).coalesce(1)


def plan_output(job: Job, options: Any, trigger: Trigger, raw: DataFrame) -> DataFrame:
    """Return the records that a job writes for records of its only topic."""
    configured = ConfiguredJob(job, options, trigger)
    (topic,) = job.sources
    records: DataFrame = configured.plan.records(plan_input(configured, topic, raw), options)
    return records


def readings_table(spark: SparkSession, readings: Sequence[RackReading]) -> DataFrame:
    """Return readings as records of a topic."""
    return kafka_table(spark, [encode(reading) for reading in readings])


def with_field(field: str, as_json: str | bytes, record: bytes = _VALID) -> bytes:
    """Return a record, by default a reading, with the JSON of one field replaced or added."""
    fields = {name: json.dumps(value).encode() for name, value in json.loads(record).items()}
    fields[field] = as_json.encode() if isinstance(as_json, str) else as_json
    return (
        b"{"
        + b",".join(b'"%s":%s' % (name.encode(), value) for name, value in fields.items())
        + b"}"
    )


def without(field: str) -> bytes:
    fields = json.loads(_VALID)
    del fields[field]
    return json.dumps(fields).encode()
