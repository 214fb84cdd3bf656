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
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

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
    "hot": T.BooleanType(),
    "site_id": T.StringType(),
    "threshold_c": T.DoubleType(),
}
_LETTER = T.StructType().add("letter_key", T.BinaryType()).add("letter", T.StringType())
_PACKED = T.StructType([
    T.StructField("rack_id", T.StringType()),
    *(T.StructField(name, T.ArrayType(of)) for name, of in _READINGS.items()),
    *_LETTER.fields,
])  # fmt: skip
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


def stateful_overheating_changes(readings: DataFrame) -> DataFrame:
    """Return one row per change of a rack's state, and the letters as they came, in rows of their own.

    In and out as in `overheating.overheating_changes`; in also Kafka's `timestamp`, `partition` and `offset`, and the
    unreadable records; in and out also `letter_key` and `letter`.
    """
    readable = F.col("letter").isNull()
    columns = readings.select(
        F.when(readable, F.col("rack_id")).alias("rack_id"), F.unix_millis("timestamp").alias("append_ms"),
        "partition", "offset", "sequence", "event_id", F.unix_micros("event_time").alias("event_time"),
        "temperature_c", "hot", "site_id", "threshold_c", "letter_key", "letter",
    )  # fmt: skip
    changes = (
        columns.mapInArrow(_pack_by_rack, _PACKED)
        .groupBy("rack_id")
        .transformWithStateInPandas(
            OverheatingProcessor(), outputStructType=_CHANGE, outputMode="Update", timeMode="None"
        )
    )
    instant = F.timestamp_micros("event_time")
    evidence = F.transform(
        "evidence", lambda r: r.withField("event_time", F.timestamp_micros(r["event_time"]))
    )
    return changes.withColumn("event_time", instant).withColumn("evidence", evidence)


def _pack_by_rack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Put the readings of a rack into one row with lists, and a letter into a row without a rack.

    State in Python is handed its rows one by one, in pandas too, at some 5 µs each: a row must hold many readings.
    """
    for batch in batches:
        is_letter = batch["letter"].is_valid()
        letters = batch.filter(is_letter)
        yield pa.RecordBatch.from_pylist(
            letters.select(["letter_key", "letter"]).to_pylist(), schema=to_arrow_schema(_PACKED)
        )
        readings = pa.table(batch.filter(pc.invert(is_letter))).group_by("rack_id", use_threads=False)
        packed = readings.aggregate([(name, "list") for name in _READINGS])
        nothing = {name: pa.nulls(packed.num_rows, batch.schema.field(name).type) for name in _LETTER.names}
        columns = {name: packed[f"{name}_list"] for name in _READINGS}
        yield from pa.table({"rack_id": packed["rack_id"], **columns, **nothing}).to_batches()


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
        packed = pd.concat(rows, ignore_index=True)
        batch = {name: np.concatenate(packed[name].to_numpy()) for name in _READINGS}
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
                    "threshold_c": batch["threshold_c"][at],
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
