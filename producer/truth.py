"""What must come out of a run? Its acknowledged records, taken through the oracle, written as JSON lines.

Kinds of lines: `summary` (first), `alert`, `dead-letter`, `window`. A line that Spark promises nothing about,
because a record beyond the watermark belongs to it, has `"either": true`.
"""

from array import array
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from events.records import RackReading
from events.times import to_ms, to_text
from producer.hashing import Ints
from producer.oracle import FLEET, overheating_alerts, temperature_windows, window_starts
from producer.plan import Mark, Plan

AHEAD_MS = 5 * 60_000
"""Jobs by event time set aside what lies further ahead of its append time than this."""
CHUNK = 65_536
"""How many records are drawn again at once."""


class Acknowledged:
    """The records that the broker has acknowledged, each with where and when it was appended."""

    def __init__(self) -> None:
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def add(self, number: int, marks: int, partition: int, offset: int, append_ms: int) -> None:
        """Note one record: its reading's number and marks, and what the delivery report says."""
        self._rows.extend((number, marks, partition, offset, append_ms))

    def in_topic_order(self) -> Ints:
        """Return rows (number, marks, partition, offset, append time) in the topic's order."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 5)
        return rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 4]))]


def write_truth(
    path: Path,
    plan: Plan,
    acknowledged: Acknowledged,
    topic: str,
    summary: Mapping[str, Any],
    flush: RackReading | None,
) -> None:
    """Write the truth of a run; `flush` is the record that only moved watermarks, if one was sent."""
    rows = acknowledged.in_topic_order()
    alerts = list(_alerts(plan, rows))
    dead_letters = list(_dead_letters(plan, rows, topic))
    windows = list(_windows(plan, rows, flush))
    counts = {"alerts": len(alerts), "dead_letters": len(dead_letters), "windows": len(windows)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for line in ({"kind": "summary", **summary, **counts}, *alerts, *dead_letters, *windows):
            file.write(msgspec.json.encode(line) + b"\n")


def _alerts(plan: Plan, rows: Ints) -> Iterator[dict[str, Any]]:
    good = rows[(rows[:, 1] & Mark.MALFORMED) == 0]
    racks = good[:, 0] % len(plan.world.rack_ids)
    by_rack = np.argsort(racks, kind="stable")
    # Rack by rack, so that only one rack's records are in memory at a time.
    for rack_rows in np.split(good[by_rack], np.flatnonzero(np.diff(racks[by_rack])) + 1):
        if len(rack_rows):
            rack = int(rack_rows[0, 0]) % len(plan.world.rack_ids)
            thresholds = {plan.world.rack_ids[rack]: float(plan.world.threshold[rack]) / 100}
            for alert in overheating_alerts(plan.records(rack_rows[:, 0]), thresholds):
                yield {"kind": "alert", **alert}


def _dead_letters(plan: Plan, rows: Ints, topic: str) -> Iterator[dict[str, Any]]:
    malformed = (rows[:, 1] & Mark.MALFORMED) > 0
    bad = rows[malformed]
    for row, value, kind in zip(bad, plan.values(bad[:, 0]), plan.malformed_kinds(bad[:, 0]), strict=True):
        yield _dead_letter(topic, row, len(value), kind, "all")
    ahead = rows[_set_aside(plan, rows) & ~malformed]
    for row, value in zip(ahead, plan.values(ahead[:, 0]), strict=True):
        yield _dead_letter(topic, row, len(value), "future", "by-event-time")


def _dead_letter(topic: str, row: Ints, size: int, error: str, jobs: str) -> dict[str, Any]:
    return {
        "kind": "dead-letter",
        "source_topic": topic,
        "partition": int(row[2]),
        "offset": int(row[3]),
        "value_size": size,
        "error_kind": error,
        "jobs": jobs,
    }


def _windows(plan: Plan, rows: Ints, flush: RackReading | None) -> Iterator[dict[str, Any]]:
    good = rows[((rows[:, 1] & Mark.MALFORMED) == 0) & ~_set_aside(plan, rows)][:, 0]
    beyond = rows[(rows[:, 1] & Mark.TOO_LATE) > 0][:, 0]
    extra = [] if flush is None else [flush]
    either = {key for record in (*plan.records(beyond), *extra) for key in _keys(record)}
    chunks = (plan.records(good[start : start + CHUNK]) for start in range(0, len(good), CHUNK))
    for row in temperature_windows(chain(chain.from_iterable(chunks), extra)):
        doubt = {"either": True} if (row["scope"], row["window_start"]) in either else {}
        yield {"kind": "window", **row, **doubt}


def _keys(record: RackReading) -> set[tuple[str, str]]:
    starts = [to_text(start_ms) for start_ms in window_starts(to_ms(record.event_time))]
    return {(scope, start) for start in starts for scope in (FLEET, record.rack_id)}


def _set_aside(plan: Plan, rows: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    ahead: np.ndarray[tuple[int], np.dtype[np.bool_]] = (
        plan.readings(rows[:, 0]).event_ms > rows[:, 4] + AHEAD_MS
    )
    return ahead
