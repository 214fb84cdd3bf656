"""Run the overheating rule as Python state of buckets of racks: micro-batch and available-now.

A micro-batch emits once per rack and batch, so the native expressions of `real_time` would lose
changes within a batch. Here `buckets` takes the readings of a batch in the topic's order.

A group is a bucket of racks, whose readings and state are Arrow streams.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.rules.framework.bucketed_readings import from_stream, open_batches, to_stream
from spark_jobs.rules.framework.evidence import FIELDS, evidence_type, evidence_with_timestamps
from spark_jobs.rules.overheating.buckets import (
    EMPTY,
    READINGS,
    BucketLimits,
    BucketState,
    limits_by_bucket,
    update_bucket,
)
from spark_jobs.rules.overheating.limits import FleetLimits
from spark_jobs.rules.overheating.rack_history import Memory

_CHANGE = (
    T.StructType()
    .add("subject", T.StringType())
    .add("site_id", T.StringType())
    .add("severity", T.StringType())
    .add("event_time", T.LongType())
    .add("trigger_event_id", T.StringType())
    .add("threshold_c", T.DoubleType())
    .add("count", T.IntegerType())
    .add("evidence", T.ArrayType(evidence_type(FIELDS)))
)
# A StructType instead of DDL text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add("history", T.BinaryType()).add("memories", T.BinaryType())


def overheating_changes(bucketed: DataFrame, limits: FleetLimits) -> DataFrame:
    """Return one row per change of state or severity.

    In: what `Buckets(READINGS).read` returns.

    Out: the columns of `real_time.overheating_changes`.
    """
    changes = bucketed.groupBy("bucket").transformWithStateInPandas(
        OverheatingProcessor(limits_by_bucket(limits)),
        outputStructType=_CHANGE,
        outputMode="Update",
        timeMode="None",
    )
    event_time = F.timestamp_micros("event_time")
    return changes.withColumn("event_time", event_time).withColumn(
        "evidence", evidence_with_timestamps()
    )


class OverheatingProcessor(StatefulProcessor):
    """Applies a batch's readings to the racks of a bucket, with one read and write of the state."""

    def __init__(self, limits: list[BucketLimits]) -> None:
        self._limits = limits

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's one state."""
        self._state = handle.getValueState("histories", _STATE)
        self._memories = msgspec.msgpack.Decoder(dict[str, Memory])

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; in pandas, frames come
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Return a row per change that the bucket's readings cause."""
        bucket = int(key[0])
        batch = pd.concat(rows)
        readings = open_batches(
            batch["readings"].dropna(), batch["fallback_row"].dropna(), READINGS
        )
        state, changes = update_bucket(self._stored(), readings, self._limits[bucket])
        memories = msgspec.msgpack.encode(state.memories) if state.memories else None
        self._state.update((to_stream(state.history), memories))
        if changes:
            yield pd.DataFrame(changes, columns=_CHANGE.names).replace({np.nan: None})

    def _stored(self) -> BucketState:
        stored = self._state.get()
        if stored is None:
            return EMPTY
        history, memories = stored
        return BucketState(
            from_stream(history), self._memories.decode(memories) if memories else {}
        )
