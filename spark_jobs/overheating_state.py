"""The overheating rule as Python state, for micro-batch and available-now: a bucket of racks, one state.

A micro-batch emits once per rack and batch, so the built-in expressions of `overheating` would lose changes in it.
Here the readings of a batch are taken in the order in which the topic holds them (`overheating_buckets`). A call with
a group's rows and state takes Spark over a millisecond, whatever is in them: so a group is not a rack but a bucket of
racks, whose readings and state cross in Arrow's own format.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from events.records import InventoryRack, RackReading
from spark_jobs.dead_letters import with_letters
from spark_jobs.kafka import RECORD
from spark_jobs.overheating_buckets import (
    BUCKETS,
    HISTORY,
    READINGS,
    Thresholds,
    bucket_of,
    follow,
    thresholds_by_bucket,
)
from spark_jobs.parsing import parse
from spark_jobs.quick_reading import QuickReader, called_once, short_value, structs

LETTERS = -1
"""The bucket of what is no reading."""

_EVIDENCE = (
    T.StructType()
    .add("sequence", T.LongType())
    .add("event_id", T.StringType())
    .add("event_time", T.LongType())
    .add("temperature_c", T.DoubleType())
)
_LETTER = T.StructType().add("letter_key", T.BinaryType()).add("letter", T.StringType())
_CHANGE = (
    T.StructType(list(_LETTER.fields))
    .add("subject", T.StringType())
    .add("site_id", T.StringType())
    .add("warning", T.BooleanType())
    .add("event_time", T.LongType())
    .add("decider", T.StringType())
    .add("threshold_c", T.DoubleType())
    .add("evidence", T.ArrayType(_EVIDENCE))
)
# A StructType and no text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add("history", T.BinaryType())
_PACK = T.StructType().add("bucket", T.IntegerType()).add("readings", T.BinaryType())
_GOOD_AND_PACK = T.StructType().add("good", T.BooleanType()).add("pack", _PACK)
_PARSED = [name for name in READINGS.names if name in RackReading.__struct_fields__]


def packed_readings(raw: DataFrame, source_topic: str) -> DataFrame:
    """Return the readings in packs of one bucket each, and the letters in rows of their own.

    In: Kafka's columns. Out: `bucket`; and one of `readings` (an Arrow stream of `READINGS`), `alone` (one reading that
    was read in the JVM, as JSON of the same fields), and `letter_key` and `letter`.
    State in Python is handed its rows one by one, in pandas too, at some 5 µs each: a row must hold many readings.
    """
    read_and_pack = called_once(_read_and_pack, _GOOD_AND_PACK)
    read = raw.select(
        *RECORD.names,
        read_and_pack(short_value(), "timestamp", "partition", "offset").alias("quick"),
    )
    good, pack = F.col("quick.good"), F.col("quick.pack")
    rows = read.where(~good | pack.isNotNull()).select(
        "key",
        F.when(~good, F.col("value")).alias("value"),
        "partition",
        "offset",
        "timestamp",
        pack.alias("pack"),
    )
    parsed = parse(rows, RackReading, keep=("pack",))
    error = F.when(F.col("pack").isNull(), F.col("error"))
    lettered = with_letters(parsed.withColumn("error", error), source_topic)
    is_alone = F.col("pack").isNull() & F.col("letter").isNull()
    in_numbers = {"append_ms": F.unix_millis("timestamp"), "event_time": F.unix_micros("event_time")}
    reading = F.struct(*(in_numbers.get(name, F.col(name)).alias(name) for name in READINGS.names))
    bucket = F.when(is_alone, (F.crc32("rack_id") % BUCKETS).cast("int")).otherwise(LETTERS)
    return lettered.select(
        F.coalesce("pack.bucket", bucket).alias("bucket"),
        F.col("pack.readings").alias("readings"),
        F.when(is_alone, F.to_json(reading)).alias("alone"),
        *_LETTER.names,
    )


def stateful_overheating_changes(packed: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Return one row per change of a rack's state, and the letters as they came, in rows of their own.

    In: what `packed_readings` returns. Out as `overheating.overheating_changes`, with `letter_key` and `letter`.
    """
    changes = packed.groupBy("bucket").transformWithStateInPandas(
        OverheatingProcessor(thresholds_by_bucket(inventory)),
        outputStructType=_CHANGE,
        outputMode="Update",
        timeMode="None",
    )
    instant = F.timestamp_micros("event_time")
    evidence = F.transform(
        "evidence", lambda r: r.withField("event_time", F.timestamp_micros(r["event_time"]))
    )
    return changes.withColumn("event_time", instant).withColumn("evidence", evidence)


def packs_of(readings: pa.RecordBatch) -> pa.RecordBatch:
    """Return `bucket` and `readings` (an Arrow stream), a row for each bucket of which there are readings."""
    racks = readings["rack_id"].dictionary_encode()
    buckets = np.array([bucket_of(rack_id) for rack_id in racks.dictionary.to_pylist()], np.int32)
    bucket = buckets[racks.indices.to_numpy()]
    order = np.argsort(bucket, kind="stable")
    ordered = readings.take(pa.array(order))
    there, starts, counts = np.unique(bucket[order], return_index=True, return_counts=True)
    streams = [_stream(ordered.slice(*place)) for place in zip(starts, counts, strict=True)]
    return pa.record_batch([pa.array(there, pa.int32()), pa.array(streams, pa.binary())], names=_PACK.names)


def _read_and_pack(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """Tell which values are surely good, and put their readings in packs, at the places of as many good ones."""
    reader = QuickReader(RackReading)
    fields = list(to_arrow_type(_GOOD_AND_PACK, timezone="UTC"))
    for values, timestamps, partitions, offsets in batches:
        good, found = reader.read(values, _PARSED)
        place = {
            "append_ms": pc.divide(timestamps.filter(good).cast(pa.int64()), 1000),
            "partition": partitions.filter(good),
            "offset": offsets.filter(good),
        }
        columns = [place[name] if name in place else found[name] for name in READINGS.names]
        packs = packs_of(
            pa.record_batch(
                [column.cast(field.type) for column, field in zip(columns, READINGS, strict=True)], READINGS
            )
        )
        nth = pc.subtract(pc.cumulative_sum(good.cast(pa.int64())), 1)
        rows = pc.if_else(pc.and_(good, pc.less(nth, len(packs))), nth, None)
        yield pa.StructArray.from_arrays([good, structs(rows, packs, list(fields[1].type))], fields=fields)


class OverheatingProcessor(StatefulProcessor):
    """Follows the racks of a bucket through their readings of a batch: one state read and one write for all."""

    def __init__(self, thresholds: dict[int, Thresholds]) -> None:
        self._thresholds = thresholds

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's one state."""
        self._state = handle.getValueState("histories", _STATE)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; in pandas, frames come
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Take the bucket's readings of this batch in the topic's order; give one row per change, or the letters."""
        bucket = int(key[0])
        if bucket == LETTERS:
            for frame in rows:
                yield (
                    frame[_LETTER.names].reindex(columns=_CHANGE.names).astype(object).replace({np.nan: None})
                )
            return
        stored = self._state.get()
        history = _table(stored[0]) if stored else HISTORY.empty_table()
        readings = pa.concat_tables([part for frame in rows for part in _readings(frame)])
        history, changes = follow(history, readings, self._thresholds.get(bucket))
        self._state.update((_stream(history),))
        if changes:
            yield pd.DataFrame(changes, columns=_CHANGE.names).replace({np.nan: None})


def _readings(frame: pd.DataFrame) -> Iterator[pa.Table]:
    yield from map(_table, frame["readings"].dropna())
    alone = [msgspec.json.decode(text) for text in frame["alone"].dropna()]
    yield pa.Table.from_pylist(alone, READINGS)


def _stream(rows: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _table(stream: bytes) -> pa.Table:
    return pa.ipc.open_stream(stream).read_all()
