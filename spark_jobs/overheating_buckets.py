"""How do many racks' histories go on at once, by the overheating rule? Arrow tables in and out, nothing of Spark.

Most racks have no hot reading and no warning: those are done with together (`newest_readings`), the others one by one
(`RackHistory`). The last three distinct readings by `sequence` are all that later ones can be compared with, so they
are all that is kept.
"""

from bisect import insort
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import InventoryRack

IN_A_ROW = 3
BUCKETS = 64
"""Of racks. A checkpoint holds for one number; all of a bucket's state is written when a rack of it reports."""

_MEASURED = [
    ("rack_id", pa.string()),
    ("sequence", pa.int64()),
    ("event_id", pa.string()),
    ("event_time", pa.int64()),
    ("temperature_c", pa.float64()),
]
READINGS = pa.schema([
    *_MEASURED,
    ("site_id", pa.string()),
    ("append_ms", pa.int64()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
])  # fmt: skip
"""New readings, and their places in the topic. `event_time` in epoch microseconds, `append_ms` in milliseconds."""

HISTORY = pa.schema([*_MEASURED, ("hot", pa.bool_())])
"""A bucket's state: of each of its racks up to three readings, by `sequence`."""

Thresholds = tuple[pa.Array, pa.Array]
"""Racks whose threshold is not the usual one, and those thresholds in °C."""


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


def bucket_of(rack_id: str) -> int:
    """Return the bucket of a rack, the same in every process."""
    return crc32(rack_id.encode()) % BUCKETS


def thresholds_by_bucket(inventory: Iterable[InventoryRack]) -> dict[int, Thresholds]:
    """Return the thresholds of an inventory."""
    found: dict[int, dict[str, float]] = {}
    for rack in inventory:
        if rack.threshold_c != DEFAULT_THRESHOLD_C:
            found.setdefault(bucket_of(rack.rack_id), {})[rack.rack_id] = rack.threshold_c
    return {
        bucket: (pa.array(racks, pa.string()), pa.array(racks.values(), pa.float64()))
        for bucket, racks in found.items()
    }


def follow(
    history: pa.Table, readings: pa.Table, thresholds: Thresholds | None = None
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Take the readings of a batch in the topic's order; return the new history, and a row for each change of a rack.

    In and out: tables of `HISTORY` and of `READINGS`, the latter in any order. The rows have `subject` (the rack),
    `site_id`, `warning`, `event_time` and `decider` (the deciding reading's, and its id), `threshold_c`, `evidence`.
    """
    readings = readings.take(np.lexsort([readings[name] for name in ("offset", "partition", "append_ms")]))
    named = pa.concat_tables([history.select(["rack_id"]), readings.select(["rack_id"])]).combine_chunks()
    racks = pc.dictionary_encode(named["rack_id"]).combine_chunks()
    threshold_c = _threshold_of(racks.dictionary, thresholds)
    rack = racks.indices.to_numpy()
    hot = readings["temperature_c"].to_numpy() >= threshold_c[rack[len(history) :]]
    rows = pa.concat_tables([
        history, readings.select(HISTORY.names[:-1]).append_column("hot", pa.array(hot))
    ]).combine_chunks()  # fmt: skip

    in_warning = np.bincount(rack[: len(history)], weights=history["hot"], minlength=len(threshold_c))
    one_by_one = in_warning == IN_A_ROW
    one_by_one[rack[len(history) :][hot]] = True
    # Cold readings alone change no NORMAL state, and only the newest can matter to later ones.
    cold = np.flatnonzero(~one_by_one[rack])
    left = rows.take(cold[newest_readings(rack[cold], rows.take(cold))])

    others = np.flatnonzero(one_by_one[rack])
    others = others[np.argsort(rack[others], kind="stable")]
    taken = map(Reading, *(rows[name].take(others).to_pylist() for name in Reading._fields))
    changes, kept = [], {}
    for number, its in groupby(
        zip(rack[others].tolist(), others.tolist(), taken, strict=True), itemgetter(0)
    ):
        rack_id = racks.dictionary[number].as_py()
        kept[rack_id] = rack_history = RackHistory()
        for _, row, reading in its:
            if row < len(history):
                rack_history.last.append(reading)
            elif rack_history.take(reading):
                site_id = readings["site_id"][row - len(history)].as_py()
                about = {"subject": rack_id, "site_id": site_id, "threshold_c": threshold_c[number]}
                changes.append(about | _change(rack_history, reading))
    if kept:
        left = pa.concat_tables([left, _table(kept)])
    return left, changes


def newest_readings(rack: NDArray[Any], rows: pa.Table) -> NDArray[Any]:
    """Return the places of each rack's last three distinct readings, the rack given as a number for each row.

    By rack, `sequence` and `event_id`; of the copies of a reading the first.
    """
    sequence = rows["sequence"].to_numpy()
    order = np.lexsort([sequence, rack])
    tied = _is_as_before(rack[order], sequence[order])
    if tied.any():
        order = order[_distinct(order, tied, rack, rows)]
    after = np.searchsorted(rack[order], rack[order], side="right") - np.arange(len(order))
    newest: NDArray[Any] = order[after <= IN_A_ROW]
    return newest


def _distinct(order: NDArray[Any], tied: NDArray[Any], rack: NDArray[Any], rows: pa.Table) -> NDArray[Any]:
    """Return places in `order`, ties by `event_id`, without the later copies."""
    # Texts are compared only where the numbers do not decide.
    undecided = np.flatnonzero(tied | np.append(tied[1:], False))
    event_ids = rows["event_id"].take(order[undecided]).to_numpy(zero_copy_only=False)
    event_id = np.zeros(len(order), np.int64)
    event_id[undecided] = np.unique(event_ids, return_inverse=True)[1]
    racks, sequence = rack[order], rows["sequence"].to_numpy()[order]
    places = np.lexsort([event_id, sequence, racks])
    is_copy = _is_as_before(racks[places], sequence[places], event_id[places])
    distinct: NDArray[Any] = places[~is_copy]
    return distinct


def _is_as_before(*columns: NDArray[Any]) -> NDArray[Any]:
    """Tell of each row whether it is as the one before it in all columns."""
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return np.concatenate([np.zeros(min(len(columns[0]), 1), bool), same])


def _threshold_of(racks: pa.Array, thresholds: Thresholds | None) -> NDArray[Any]:
    if thresholds is None:
        return np.full(len(racks), DEFAULT_THRESHOLD_C)
    known = thresholds[1].take(pc.index_in(racks, value_set=thresholds[0]))
    of_each: NDArray[Any] = pc.fill_null(known, DEFAULT_THRESHOLD_C).to_numpy(zero_copy_only=False)
    return of_each


def _change(history: RackHistory, decider: Reading) -> dict[str, Any]:
    return {
        "warning": history.warning,
        "event_time": decider.event_time,
        "decider": decider.event_id,
        "evidence": [dict(zip(Reading._fields[:-1], reading[:-1], strict=True)) for reading in history.last],
    }


def _table(kept: dict[str, RackHistory]) -> pa.Table:
    rows = [(rack_id, *reading) for rack_id, history in kept.items() for reading in history.last]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=HISTORY)
