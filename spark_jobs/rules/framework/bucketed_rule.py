"""Run a rule about racks with Python state, grouped by buckets of racks.

A rule is written as a `StatefulRule` of a single rack. This module calls it rack by rack: with the
readings in the topic's order, the rack's rule and its entry in the inventory. The state of all
racks of a bucket is one value. A batch decodes only the racks that have readings or whose timer is
due, and copies the others as they are.
"""

from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from events.records import InventoryRack
from events.rules import Rules
from spark_jobs.rules.framework.bucketed_readings import (
    BUCKET_COUNT,
    POSITION,
    Buckets,
    bucket_of,
    open_batches,
)
from spark_jobs.rules.framework.rack_metadata import RackMetadata
from spark_jobs.rules.framework.stateful_rule import (
    DECISION,
    StatefulRule,
    register_timer,
    to_row,
    with_timestamps,
)
from spark_jobs.runtime.options import RuleOptions

ROWS_PER_SLICE = 10_000
"""How many readings exist as Python objects at a time."""
_US_PER_UNIT = {"event_time": 1, "append_ms": 1000}
# A StructType instead of DDL text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add("racks", T.BinaryType()).add("timer_ms", T.LongType())
_Racks = dict[str, tuple[int | None, Raw]]
"""By rack, the time of its timer (epoch ms) and its encoded state."""


def bucketed_decisions(
    readings: DataFrame,
    rule: type[StatefulRule],
    options: RuleOptions,
    buckets: Buckets,
    *,
    settings: Mapping[str, Any] | None = None,
    watermark: str | None = None,
    by_wall_clock: bool = False,
) -> DataFrame:
    """Return a row per decision with the columns of `framework.alert_record`; append mode only.

    In: the plan's input with the batches of `buckets`. The columns of its schema become attributes
    of the rows that `rule` is given. `settings` are fields that each rack's state starts with.

    The rule's timers follow the wall clock, or the readings: then they are `watermark`, an interval
    in Spark's words, behind the latest value of the column `buckets.latest`. By the wall clock, the
    racks of the inventory have a state from the first batch on.

    The evidence has the optional fields too, which `to_alert_records` leaves out.
    """
    bucketed = buckets.read(readings)
    time_mode = "ProcessingTime" if by_wall_clock else "None"
    if watermark and buckets.latest:
        latest = F.timestamp_micros(F.col("latest") * _US_PER_UNIT[buckets.latest])
        bucketed = bucketed.withColumn("latest", latest).withWatermark("latest", watermark)
        time_mode = "EventTime"
    elif watermark or buckets.latest:
        raise ValueError("a watermark needs the column that it follows, and the other way round")
    inventory = inventory_by_bucket(options.inventory)
    initial = None
    if by_wall_clock and options.inventory:
        known = pa.array([bucket for bucket, racks in enumerate(inventory) if racks], pa.int32())
        # From Arrow it becomes a local relation, which needs no tasks.
        seeded = readings.sparkSession.createDataFrame(pa.table({"bucket": known}))
        initial = seeded.groupBy("bucket")
    grouped = bucketed.groupBy("bucket").transformWithState(
        BucketProcessor(rule, options.rules, inventory, buckets, settings or {}),
        outputStructType=DECISION,
        outputMode="Append",
        timeMode=time_mode,
        initialState=initial,
    )
    return with_timestamps(grouped)


def inventory_by_bucket(inventory: Iterable[InventoryRack]) -> list[bytes]:
    """Return the racks of each bucket by id, encoded: most batches need few of them."""
    racks: list[dict[str, InventoryRack]] = [{} for _ in range(BUCKET_COUNT)]
    for rack in inventory:
        racks[bucket_of(rack.rack_id)][rack.rack_id] = rack
    return [msgspec.msgpack.encode(own) if own else b"" for own in racks]


class BucketProcessor(StatefulProcessor):
    """Runs a `StatefulRule` for each rack of a bucket, with one read and write of their state.

    The bucket has one timer, at the earliest time that one of its racks asks for. A new one is set
    only when the earlier one has fired or is too late.
    """

    def __init__(
        self,
        rule: type[StatefulRule],
        rules: Rules,
        inventory: list[bytes],
        buckets: Buckets,
        settings: Mapping[str, Any],
    ) -> None:
        self._rule_type, self._rules, self._inventory = rule, rules, inventory
        self._schema, self._clock, self._settings = buckets.schema, buckets.latest, settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the bucket's one state."""
        self._handle = handle
        self._state = handle.getValueState("bucket", _STATE)
        self._racks_decoder = msgspec.msgpack.Decoder(_Racks)
        self._rule_decoder = msgspec.msgpack.Decoder(self._rule_type)
        self._inventory_decoder = msgspec.msgpack.Decoder(dict[str, Raw])
        self._rack_decoder = msgspec.msgpack.Decoder(InventoryRack)

    def handleInitialState(  # type: ignore[override] # noqa: N802 - Spark's name
        self,
        key: Any,
        initialState: Row,  # noqa: ARG002, N803 - Spark's name
        timerValues: TimerValues,  # noqa: N803
    ) -> None:
        """Start the states of the bucket's racks of which no reading has come yet."""
        now_ms = timerValues.getCurrentProcessingTimeInMs()
        racks: _Racks = {}
        known = self._known_racks(key[0])
        for rack_id in known:
            rule = self._configured(None, rack_id, known)
            rule.on_start(now_ms)
            racks[rack_id] = _stored(rule)
        self._store(racks, None)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; without pandas, rows come
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """Take the bucket's readings of this batch, rack by rack, in the topic's order."""
        batches = list(rows)
        readings = self._in_time(
            open_batches(
                [row["readings"] for row in batches if row["readings"] is not None],
                [row["fallback_row"] for row in batches if row["fallback_row"] is not None],
                self._schema,
            ),
            timerValues,
        )
        racks, timer_ms = self._load()
        known = self._known_racks(key[0])
        for rack_id, rack_rows in rows_by_rack(readings):
            rule = self._configured(racks.get(rack_id), rack_id, known)
            for row in rack_rows:
                for decision in rule.on_row(rack_id, row):
                    yield to_row(rack_id, decision)
            for decision in rule.on_batch_end(rack_id):
                yield to_row(rack_id, decision)
            racks[rack_id] = _stored(rule)
        self._store(racks, timer_ms)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Let the racks decide by the clock whose time has come."""
        racks, timer_ms = self._load()
        if timer_ms != expiredTimerInfo.getExpiryTimeInMs():
            return  # an earlier timer was set since
        now_ms = (
            timerValues.getCurrentWatermarkInMs()
            if self._clock
            else timerValues.getCurrentProcessingTimeInMs()
        )
        for rack_id, (next_timer_ms, state) in racks.items():
            if next_timer_ms is not None and next_timer_ms <= now_ms:
                rule = self._rule_decoder.decode(state)
                for decision in rule.on_timer(rack_id, now_ms):
                    yield to_row(rack_id, decision)
                racks[rack_id] = _stored(rule)
        self._store(racks, None)

    def _in_time(self, readings: pa.Table, timer_values: TimerValues) -> pa.Table:
        """Leave out readings before the watermark: Spark sees only the latest of each batch."""
        if not self._clock:
            return readings
        watermark = timer_values.getCurrentWatermarkInMs() * 1000 // _US_PER_UNIT[self._clock]
        return readings.filter(pc.greater_equal(readings[self._clock], watermark))

    def _known_racks(self, bucket: int) -> dict[str, Raw]:
        encoded = self._inventory[bucket]
        return self._inventory_decoder.decode(encoded) if encoded else {}

    def _configured(
        self, stored: tuple[int | None, Raw] | None, rack_id: str, known: Mapping[str, Raw]
    ) -> StatefulRule:
        """Return a rack's state with what the rules and the inventory say today."""
        rule = self._rule_decoder.decode(stored[1]) if stored else self._rule_type(**self._settings)
        rack = self._rack_decoder.decode(known[rack_id]) if rack_id in known else None
        rule.configure(RackMetadata(rack_id, rack), self._rules)
        return rule

    def _load(self) -> tuple[_Racks, int | None]:
        """Return the racks' states and the time of the bucket's timer."""
        stored = self._state.get()
        return (self._racks_decoder.decode(stored[0]), stored[1]) if stored else ({}, None)

    def _store(self, racks: _Racks, timer_ms: int | None) -> None:
        next_ms = min((each for each, _ in racks.values() if each is not None), default=None)
        timer_ms = register_timer(self._handle, next_ms, timer_ms)
        self._state.update((msgspec.msgpack.encode(racks), timer_ms))


def rows_by_rack(readings: pa.Table) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield each rack with its readings in the topic's order, to be taken before the next rack.

    A reading is a named tuple of its columns.
    """
    if not len(readings):
        return
    racks = pc.dictionary_encode(readings["rack_id"]).combine_chunks()
    number = racks.indices.to_numpy()
    order = np.lexsort([*(readings[name] for name in reversed(POSITION)), number])
    ordered = readings.take(order)
    row_type = namedtuple("ReadingRow", readings.column_names)  # type: ignore[misc] # its fields vary
    # As Python objects a reading takes several times the memory, so few are there at a time: with
    # a plan that reads all, the batch holds the whole backlog.
    slices = (
        ordered.slice(start, ROWS_PER_SLICE) for start in range(0, len(ordered), ROWS_PER_SLICE)
    )
    rows = chain.from_iterable(
        map(row_type._make, zip(*(column.to_pylist() for column in part), strict=True))
        for part in slices
    )
    starts = np.flatnonzero(np.diff(number[order], prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(order)]):
        yield racks.dictionary[number[order[start]]].as_py(), islice(rows, end - start)


def _stored(rule: StatefulRule) -> tuple[int | None, Raw]:
    return rule.next_timer_ms(), Raw(msgspec.msgpack.encode(rule))
