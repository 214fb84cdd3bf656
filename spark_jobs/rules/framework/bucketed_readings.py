"""Bring readings to Python state in batches, each of one bucket of racks.

Spark spends over a millisecond on each call with a group's rows and state, and hands rows over one
by one, with pandas too, at some 5 µs each. So a group is not a rack but a bucket of racks, and a
row holds many readings as an Arrow stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from events.records import RackReading
from events.spark_schemas import spark_schema
from spark_jobs.runtime.parsing.batches import Batches

BUCKET_COUNT = 64
"""The number of buckets of racks; a checkpoint with another number is refused.

The whole state of a bucket is written whenever one of its racks sends a reading.
"""
FINGERPRINT = {"buckets": str(BUCKET_COUNT)}
"""What the state of a plan of buckets depends on."""
POSITION = {"append_ms": pa.int64(), "partition": pa.int32(), "offset": pa.int64()}
"""Where a reading is in the topic; by these columns readings are in the topic's order."""
_BATCH = (
    T.StructType()
    .add("bucket", T.IntegerType())
    .add("readings", T.BinaryType())
    .add("latest", T.LongType())
)


def bucket_of(rack_id: str) -> int:
    """Return the bucket of a rack, the same in every process."""
    return crc32(rack_id.encode()) % BUCKET_COUNT


def readings_schema(fields: Iterable[str]) -> pa.Schema:
    """Return the Arrow schema of readings: `rack_id`, these fields, and their position.

    `event_time` is in epoch microseconds, `append_ms` in epoch milliseconds.
    """
    columns = spark_schema(RackReading)
    types = {
        name: pa.int64() if name == "event_time" else to_arrow_type(columns[name].dataType)
        for name in dict.fromkeys(("rack_id", *fields))
    }
    return pa.schema(list((types | POSITION).items()))


@dataclass(frozen=True, slots=True)
class Buckets:
    """How a plan takes readings: in batches of one bucket each.

    `schema` is that of the readings (`readings_schema`). `latest` names one of its columns of
    times, whose greatest value each batch has.
    """

    schema: pa.Schema
    latest: str | None = None

    def batches(self, *_: Any) -> Batches:
        """Return the batches that the plan takes (`Plan.batches`)."""
        return Batches(
            fields=tuple(name for name in self.schema.names if name not in POSITION),
            convert=partial(_parsed_to_bucket_batches, schema=self.schema, latest=self.latest),
            row=_BATCH,
        )

    def read(self, readings: DataFrame) -> DataFrame:
        """Return the plan's input by bucket.

        Out: `bucket`; one of `readings`, an Arrow stream, and `fallback_row`, one reading that the
        strict parser read, as JSON of the same fields; and `latest`, if the class names it.
        """
        as_numbers = {
            "append_ms": F.unix_millis("timestamp"),
            "event_time": F.unix_micros("event_time"),
        }
        columns = {
            name: as_numbers.get(name, F.col(name)).alias(name) for name in self.schema.names
        }
        own_bucket = (F.crc32("rack_id") % BUCKET_COUNT).cast("int")
        fallback_row = F.to_json(F.struct(*columns.values()))
        found = {
            "bucket": F.coalesce("batch.bucket", own_bucket),
            "readings": F.col("batch.readings"),
            "fallback_row": F.when(F.col("batch").isNull(), fallback_row),
        }
        if self.latest:
            found["latest"] = F.coalesce("batch.latest", columns[self.latest])
        return readings.select(*[column.alias(name) for name, column in found.items()])


def to_bucket_batches(readings: pa.RecordBatch, latest: str | None = None) -> pa.RecordBatch:
    """Return a row per bucket that has readings: `bucket`, `readings` and `latest`.

    In: readings of `readings_schema`, and the name of the column whose greatest value becomes
    `latest`, which is null without one.
    """
    racks = readings["rack_id"].dictionary_encode()
    rack_buckets = np.array(
        [bucket_of(rack_id) for rack_id in racks.dictionary.to_pylist()], np.int32
    )
    bucket = rack_buckets[racks.indices.to_numpy()]
    order = np.argsort(bucket, kind="stable")
    ordered = readings.take(pa.array(order))
    present, starts, counts = np.unique(bucket[order], return_index=True, return_counts=True)
    streams = [to_stream(ordered.slice(*span)) for span in zip(starts, counts, strict=True)]
    if latest and len(starts):
        latest_values = pa.array(np.maximum.reduceat(ordered[latest].to_numpy(), starts))
    else:
        latest_values = pa.nulls(len(starts), pa.int64())
    return pa.record_batch(
        [pa.array(present, pa.int32()), pa.array(streams, pa.binary()), latest_values],
        names=_BATCH.names,
    )


def _parsed_to_bucket_batches(
    parsed: pa.RecordBatch, schema: pa.Schema, latest: str | None
) -> pa.RecordBatch:
    append_ms = pc.divide(parsed["timestamp"].cast(pa.int64()), 1000)
    columns = [append_ms if name == "append_ms" else parsed[name] for name in schema.names]
    readings = pa.record_batch(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema
    )
    return to_bucket_batches(readings, latest)


def open_batches(
    streams: Iterable[bytes], fallback_rows: Iterable[str], schema: pa.Schema
) -> pa.Table:
    """Return the readings of rows of `Buckets.read` in one table.

    In: the columns `readings` and `fallback_row` of those rows, without nulls.
    """
    rows = [msgspec.json.decode(text) for text in fallback_rows]
    return pa.concat_tables([*map(from_stream, streams), pa.Table.from_pylist(rows, schema)])


def to_stream(rows: pa.RecordBatch | pa.Table) -> bytes:
    """Return rows as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def from_stream(stream: bytes) -> pa.Table:
    """Return the rows of an Arrow stream."""
    return pa.ipc.open_stream(stream).read_all()
