"""Apply the overheating rule to many racks at once, on Arrow tables, without Spark.

Most racks have no hot reading and no warning, or are in `WARNING` with hot readings only.
`newest_readings` handles those together, and `RackHistory` handles the others one by one.
"""

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_jobs.rules.framework.bucketed_readings import (
    BUCKET_COUNT,
    POSITION,
    bucket_of,
    readings_schema,
)
from spark_jobs.rules.framework.evidence import FIELDS as EVIDENCE_FIELDS
from spark_jobs.rules.overheating.limits import FleetLimits, Limits
from spark_jobs.rules.overheating.rack_history import Memory, RackHistory, Reading

_MEASURED = ("rack_id", "sequence", "event_id", "event_time", "temperature_c")
READINGS = readings_schema((*_MEASURED, "site_id"))
"""New readings with their positions in the topic."""

HISTORY = pa.schema([*(READINGS.field(name) for name in _MEASURED), ("hot", pa.bool_())])
"""The readings that a bucket keeps of each of its racks, by `sequence`."""


class BucketState(NamedTuple):
    """What a bucket keeps: a table of `HISTORY`, and the memory of the racks that have one."""

    history: pa.Table
    memories: dict[str, Memory]


EMPTY = BucketState(HISTORY.empty_table(), {})


class BucketLimits:
    """The limits of a bucket's racks; each array has an entry for each of the distinct `limits`."""

    def __init__(self, default: Limits, by_rack: Mapping[str, Limits]) -> None:
        number = {one: n for n, one in enumerate(dict.fromkeys([default, *by_rack.values()]))}
        self.limits = tuple(number)
        self.threshold_c = np.array([one.threshold_c for one in number])
        self.history_size = np.array([one.history_size for one in number])
        self.has_memory = np.array([one.has_memory for one in number])
        self.least_hot = np.where(self.has_memory, 1, self.history_size)
        """A rack without a `Memory` and with fewer hot readings in its history is in `NORMAL`."""
        self._racks = pa.array(list(by_rack), pa.string())
        self._numbers = pa.array([number[one] for one in by_rack.values()], pa.int64())

    def numbers_of(self, racks: pa.Array) -> NDArray[Any]:
        """Return for each rack the index of its limits."""
        if not len(self._racks):
            return np.zeros(len(racks), np.int64)
        known = self._numbers.take(pc.index_in(racks, value_set=self._racks))
        numbers: NDArray[Any] = pc.fill_null(known, 0).to_numpy(zero_copy_only=False)
        return numbers


def limits_by_bucket(fleet: FleetLimits) -> list[BucketLimits]:
    """Return the limits of each bucket's racks."""
    by_rack: list[dict[str, Limits]] = [{} for _ in range(BUCKET_COUNT)]
    for rack_id, limits in fleet.by_rack.items():
        by_rack[bucket_of(rack_id)][rack_id] = limits
    return [BucketLimits(fleet.default, own) for own in by_rack]


def update_bucket(
    state: BucketState, readings: pa.Table, limits: BucketLimits
) -> tuple[BucketState, list[dict[str, Any]]]:
    """Apply a batch of readings in the topic's order; return the new state and the changes.

    In: `readings` is a table of `READINGS` in any order.

    Out: the state, and a row per change of a rack's state or severity, with `subject` (the rack),
    `site_id`, `severity` (None for `NORMAL`), `event_time` and `trigger_event_id` (of the
    triggering reading), `threshold_c`, `count` and `evidence`.
    """
    history = state.history
    readings = readings.take(np.lexsort([readings[name] for name in reversed(POSITION)]))
    rack_ids = pa.concat_tables(
        [history.select(["rack_id"]), readings.select(["rack_id"])]
    ).combine_chunks()
    racks = pc.dictionary_encode(rack_ids["rack_id"]).combine_chunks()
    number = limits.numbers_of(racks.dictionary)
    rack = racks.indices.to_numpy()
    old, new = rack[: len(history)], rack[len(history) :]
    hot = readings["temperature_c"].to_numpy() >= limits.threshold_c[number][new]
    rows = pa.concat_tables([
        history, readings.select(HISTORY.names[:-1]).append_column("hot", pa.array(hot))
    ]).combine_chunks()  # fmt: skip

    may_change = _may_change(state, racks.dictionary, old, new, hot, limits, number)
    # Later readings are compared with the newest only.
    steady = np.flatnonzero(~may_change[rack])
    history_size = limits.history_size[number][rack[steady]]
    kept = rows.take(steady[newest_readings(rack[steady], rows.take(steady), history_size)])

    others = np.flatnonzero(may_change[rack])
    others = others[np.argsort(rack[others], kind="stable")]
    other_readings = map(
        Reading, *(rows[name].take(others).to_pylist() for name in Reading._fields)
    )
    changes: list[dict[str, Any]] = []
    histories: dict[str, RackHistory] = {}
    for at, rack_rows in groupby(
        zip(rack[others].tolist(), others.tolist(), other_readings, strict=True), itemgetter(0)
    ):
        rack_id, batch = racks.dictionary[at].as_py(), list(rack_rows)
        earlier = [reading for _, row, reading in batch if row < len(history)]
        rack_history = RackHistory(limits.limits[number[at]], earlier, state.memories.get(rack_id))
        histories[rack_id] = rack_history
        for _, row, reading in batch[len(earlier) :]:
            if rack_history.add(reading):
                site_id = readings["site_id"][row - len(history)].as_py()
                about = {"subject": rack_id, "site_id": site_id}
                changes.append(about | _change(rack_history, reading))
    if histories:
        kept = pa.concat_tables([kept, _to_table(histories)])
    return BucketState(kept, _memories(state.memories, histories)), changes


def _may_change(
    state: BucketState,
    racks: pa.Array,
    old: NDArray[Any],
    new: NDArray[Any],
    hot: NDArray[Any],
    limits: BucketLimits,
    number: NDArray[Any],
) -> NDArray[Any]:
    """Tell for each rack whether its new readings may change its state.

    Whether early or late, readings that are not hot change nothing in `NORMAL`: they only interrupt
    consecutive hot ones. Hot readings change nothing where all that are kept are hot, by a rule
    without memory. More may be kept than the rule asks for: the inventory may have given the rack
    another rule before.

    `old` and `new` have the racks' indexes of the history's rows and of the readings, `hot` is of
    the readings, and `number` has the index of each rack's limits.
    """
    hot_in_history = np.bincount(old, weights=state.history["hot"], minlength=len(racks))
    readings = np.bincount(new, minlength=len(racks))
    hot_readings = np.bincount(new[hot], minlength=len(racks))
    memories = pa.array(list(state.memories), pa.string())
    remembered = pc.is_in(racks, value_set=memories).to_numpy(zero_copy_only=False)
    may_warn = (hot_in_history >= limits.least_hot[number]) | remembered
    stays_normal = ~may_warn & (hot_readings == 0)
    all_hot = (hot_in_history == np.bincount(old, minlength=len(racks))) & (
        hot_readings == readings
    )
    # A rule without memory takes over a state that may not follow from the readings.
    stays_warning = may_warn & all_hot & ~limits.has_memory[number] & ~remembered
    may_change: NDArray[Any] = (readings > 0) & ~stays_normal & ~stays_warning
    return may_change


def _memories(before: dict[str, Memory], histories: Mapping[str, RackHistory]) -> dict[str, Memory]:
    memories = {rack: memory for rack, memory in before.items() if rack not in histories}
    for rack, history in histories.items():
        if memory := history.memory:
            memories[rack] = memory
    return memories


def newest_readings(rack: NDArray[Any], rows: pa.Table, history_size: NDArray[Any]) -> NDArray[Any]:
    """Return the row numbers of each rack's last distinct readings.

    In: for each row a number for its rack, and how many readings are kept of the rack; `sequence`
    and `event_id` in `rows`. The result is ordered by rack, `sequence` and `event_id`, and has the
    first of the copies of a reading.
    """
    sequence = rows["sequence"].to_numpy()
    order = np.lexsort([sequence, rack])
    tied = _equals_previous(rack[order], sequence[order])
    if tied.any():
        order = order[_distinct(order, tied, rack, rows)]
    after = np.searchsorted(rack[order], rack[order], side="right") - np.arange(len(order))
    newest: NDArray[Any] = order[after <= history_size[order]]
    return newest


def _distinct(
    order: NDArray[Any], tied: NDArray[Any], rack: NDArray[Any], rows: pa.Table
) -> NDArray[Any]:
    """Return indexes into `order` with ties ordered by `event_id` and without later copies."""
    # Texts are compared only where the numbers are equal.
    undecided = np.flatnonzero(tied | np.append(tied[1:], False))
    event_ids = rows["event_id"].take(order[undecided]).to_numpy(zero_copy_only=False)
    event_id = np.zeros(len(order), np.int64)
    event_id[undecided] = np.unique(event_ids, return_inverse=True)[1]
    racks, sequence = rack[order], rows["sequence"].to_numpy()[order]
    indexes = np.lexsort([event_id, sequence, racks])
    is_copy = _equals_previous(racks[indexes], sequence[indexes], event_id[indexes])
    distinct: NDArray[Any] = indexes[~is_copy]
    return distinct


def _equals_previous(*columns: NDArray[Any]) -> NDArray[Any]:
    """Tell for each row whether it equals the one before it in all columns."""
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return np.concatenate([np.zeros(min(len(columns[0]), 1), bool), same])


def _change(history: RackHistory, trigger: Reading) -> dict[str, Any]:
    return {
        "severity": history.severity,
        "event_time": trigger.event_time,
        "trigger_event_id": trigger.event_id,
        "threshold_c": history.limits.threshold_c,
        "count": history.limits.count,
        "evidence": [
            {name: getattr(reading, name) for name in EVIDENCE_FIELDS}
            for reading in history.evidence
        ],
    }


def _to_table(histories: dict[str, RackHistory]) -> pa.Table:
    rows = [
        (rack_id, *reading)
        for rack_id, history in histories.items()
        for reading in history.readings
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=HISTORY)
