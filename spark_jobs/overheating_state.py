"""The overheating rule as Python state, for micro-batch and available-now: one rack, one small state.

A micro-batch emits once per rack and batch, so the built-in expressions of `overheating` would lose changes in it.
Here a rack's readings of a batch are taken one by one in the order in which the topic holds them. The last three
distinct readings by `sequence` are all that later ones can be compared with, so they are all that is kept.
"""

from bisect import insort
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from events.records import RackReading
from spark_jobs.dead_letters import with_letters
from spark_jobs.kafka import RECORD
from spark_jobs.parsing import parse
from spark_jobs.quick_reading import QuickReader, called_once, short_value, structs

IN_A_ROW = 3

_EVIDENCE = (
    T.StructType()
    .add("sequence", T.LongType())
    .add("event_id", T.StringType())
    .add("event_time", T.LongType())
    .add("temperature_c", T.DoubleType())
)
# A StructType and no text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add(
    "last", T.ArrayType(T.StructType([*_EVIDENCE.fields, T.StructField("hot", T.BooleanType())]))
)
_READINGS: dict[str, T.DataType] = {
    "append_ms": T.LongType(),
    "partition": T.IntegerType(),
    "offset": T.LongType(),
    "sequence": T.LongType(),
    "event_id": T.StringType(),
    "event_time": T.LongType(),
    "temperature_c": T.DoubleType(),
    "site_id": T.StringType(),
}
_READ = ["rack_id", "sequence", "event_id", "event_time", "temperature_c", "site_id"]
_LETTER = T.StructType().add("letter_key", T.BinaryType()).add("letter", T.StringType())
_PACK = T.StructType([
    T.StructField("rack_id", T.StringType()),
    *(T.StructField(name, T.ArrayType(of)) for name, of in _READINGS.items()),
])  # fmt: skip
_LISTS = {"rack_id": "rack_id", **{f"{name}_list": name for name in _READINGS}}
_GOOD_AND_PACK = T.StructType().add("good", T.BooleanType()).add("pack", _PACK)
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


class Reading(NamedTuple):
    """A reading as the rule sees it; ordered by `sequence`, then `event_id`. Times are epoch microseconds."""

    sequence: int
    event_id: str
    event_time: int
    temperature_c: float
    hot: bool


class RackHistory:
    """The last three distinct readings of one rack, and whether they are all hot."""

    def __init__(self, last: Iterable[Reading] = ()) -> None:
        self.last = list(last)

    @property
    def warning(self) -> bool:
        """Whether the rack is in WARNING."""
        return len(self.last) == IN_A_ROW and all(reading.hot for reading in self.last)

    def take(self, reading: Reading) -> bool:
        """Take the next reading of the topic; return whether the rack's state changed by it."""
        last = self.last
        if len(last) == IN_A_ROW and reading[:2] <= last[0][:2]:
            return False  # older than all that can matter, or a copy of the oldest
        if any(reading.event_id == other.event_id for other in last):
            return False
        before = self.warning
        insort(last, reading)
        del last[:-IN_A_ROW]
        return self.warning != before


def packed_readings(raw: DataFrame, source_topic: str) -> DataFrame:
    """Return the readings of a rack in few rows with lists, and the letters in rows of their own, without a rack.

    In: Kafka's columns. Out: `rack_id`; the lists `append_ms`, `partition`, `offset`, `sequence`, `event_id`,
    `event_time` (epoch microseconds), `temperature_c` and `site_id`; `letter_key` and `letter`.
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
    lists = {"append_ms": F.unix_millis("timestamp"), "event_time": F.unix_micros("event_time")}
    alone = F.struct("rack_id", *(F.array(lists.get(name, F.col(name))).alias(name) for name in _READINGS))
    pack = F.coalesce("pack", F.when(F.col("letter").isNull(), alone))
    return lettered.select(pack.alias("pack"), *_LETTER.names).select("pack.*", *_LETTER.names)


def stateful_overheating_changes(packed: DataFrame) -> DataFrame:
    """Return one row per change of a rack's state, and the letters as they came, in rows of their own.

    In: what `packed_readings` returns, with the `threshold_c` of the rack. Out as `overheating.overheating_changes`,
    with `letter_key` and `letter`.
    """
    changes = packed.groupBy("rack_id").transformWithStateInPandas(
        OverheatingProcessor(), outputStructType=_CHANGE, outputMode="Update", timeMode="None"
    )
    instant = F.timestamp_micros("event_time")
    evidence = F.transform(
        "evidence", lambda r: r.withField("event_time", F.timestamp_micros(r["event_time"]))
    )
    return changes.withColumn("event_time", instant).withColumn("evidence", evidence)


def _read_and_pack(batches: Iterator[tuple[pa.Array, pa.Array, pa.Array, pa.Array]]) -> Iterator[pa.Array]:
    """Tell which values are surely good, and put the readings of a rack into lists, at the place of its first one."""
    reader = QuickReader(RackReading)
    fields = list(to_arrow_type(_GOOD_AND_PACK, timezone="UTC"))
    pack = list(fields[1].type)
    for values, timestamps, partitions, offsets in batches:
        good, found = reader.read(values, _READ)
        readings = pa.table({
            **{name: found[name] for name in _READ},
            "event_time": found["event_time"].cast(pa.int64()),
            "append_ms": pc.divide(timestamps.filter(good).cast(pa.int64()), 1000),
            "partition": partitions.filter(good),
            "offset": offsets.filter(good),
            "place": pc.indices_nonzero(good),
        })  # fmt: skip
        lists = readings.group_by("rack_id", use_threads=False).aggregate(
            [("place", "first"), *((name, "list") for name in _READINGS)]
        )
        packs = pa.record_batch(
            [lists[name].combine_chunks() for name in _LISTS], names=list(_LISTS.values())
        )
        places = pa.array(range(len(values)), pa.uint64())
        rows = pc.index_in(places, value_set=lists["place_first"].combine_chunks())
        yield pa.StructArray.from_arrays([good, structs(rows, packs, pack)], fields=fields)


class OverheatingProcessor(StatefulProcessor):
    """Follows one rack at a time through its readings of a batch. One state read and one write per rack and batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the rack's one state."""
        self._state = handle.getValueState("history", _STATE)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; in pandas, frames come
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Take the rack's readings of this batch in the topic's order; give one row per change, or the letters."""
        rack_id = key[0]
        if rack_id is None:
            for frame in rows:
                yield (
                    frame[_LETTER.names].reindex(columns=_CHANGE.names).astype(object).replace({np.nan: None})
                )
            return
        stored = self._state.get()
        history = RackHistory(Reading(*reading) for reading in stored[0]) if stored else RackHistory()
        # As one array of objects: where racks have few readings each, pandas would take most of the time.
        frames = [(frame.columns, frame.to_numpy()) for frame in rows]
        packed = dict(zip(frames[0][0], np.concatenate([cells for _, cells in frames]).T, strict=True))
        batch = {name: np.concatenate(packed[name]) for name in _READINGS}
        threshold_c = packed["threshold_c"][0]
        batch["hot"] = batch["temperature_c"] >= threshold_c
        order = np.lexsort([batch["offset"], batch["partition"], batch["append_ms"]])
        if not history.warning and not batch["hot"].any():
            # Cold readings alone change no NORMAL state, and only the newest can matter to later ones.
            newest = np.unique(batch["sequence"])[-IN_A_ROW:]
            order = order[batch["sequence"][order] >= newest[0]]
        changes = []
        fields = (batch[name][order].tolist() for name in Reading._fields)
        for at, reading in zip(order, map(Reading, *fields), strict=True):
            if history.take(reading):
                rack = {
                    "subject": rack_id,
                    "site_id": batch["site_id"][at],
                    "threshold_c": threshold_c,
                }
                changes.append(rack | _change(history, reading))
        self._state.update(([tuple(reading) for reading in history.last],))
        if changes:
            yield pd.DataFrame(changes, columns=_CHANGE.names).replace({np.nan: None})


def _change(history: RackHistory, decider: Reading) -> dict[str, Any]:
    return {
        "warning": history.warning,
        "event_time": decider.event_time,
        "decider": decider.event_id,
        "evidence": [dict(zip(Reading._fields[:-1], reading[:-1], strict=True)) for reading in history.last],
    }
