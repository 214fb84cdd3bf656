"""What must come out of a run? Its acknowledged records, taken through the oracles, written as JSON lines.

Kinds of lines: `summary` (first), `dead-letter`; of racks `alert` and `window`; of clicks `attribution`; of actions
`action-count` (per action, windows of 10 minutes), `session` and `total`. A line that Spark promises nothing about,
because a record beyond the watermark belongs to it, has `"either": true`. Flush records are in no line but that of
the window that counts them, which is in doubt.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from events.records import RackReading
from events.times import to_ms, to_text
from producer import clickstream_oracle
from producer.actions import ActionPlan
from producer.clicks import ClickPlan, ImpressionPlan
from producer.hashing import Bools, Ints
from producer.oracle import AHEAD_MS, FLEET, overheating_alerts, temperature_windows, window_starts
from producer.plan import Plan
from producer.stream import Mark, StreamPlan

CHUNK = 65_536
"""How many records are drawn again at once."""


class Acknowledged:
    """The records that the broker has acknowledged, each with where and when it was appended."""

    def __init__(self) -> None:
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def add(self, number: int, marks: int, partition: int, offset: int, append_ms: int) -> None:
        """Note one record: its event's number and marks, and what the delivery report says."""
        self._rows.extend((number, marks, partition, offset, append_ms))

    def in_topic_order(self) -> Ints:
        """Return rows (number, marks, partition, offset, append time) in the topic's order."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 5)
        return rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 4]))]


@dataclass(slots=True)
class Sent:
    """What became of one plan: its acknowledged records, and the record that only moved watermarks, if any."""

    plan: StreamPlan
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    flush: Any = None


def write_truth(path: Path, sent: Sequence[Sent], summary: Mapping[str, Any]) -> None:
    """Write the truth of a run; its first line is the summary, with the number of lines of each kind."""
    held = [_Held(part) for part in sent]
    kinds = [("dead_letters", "dead-letter", list(chain.from_iterable(map(_dead_letters, held))))]
    for topic in held:
        if isinstance(topic.plan, Plan):
            kinds.insert(0, ("alerts", "alert", list(_alerts(topic, topic.plan))))
            kinds.append(("windows", "window", list(_windows(topic))))
    by_plan = {type(topic.plan): topic for topic in held}
    if ClickPlan in by_plan:
        rows = _attributions(by_plan[ImpressionPlan], by_plan[ClickPlan])
        kinds.append(("attributions", "attribution", list(rows)))
    if ActionPlan in by_plan:
        done = by_plan[ActionPlan]
        actions, doubtful = list(done.records()), done.too_late()
        flush = [done.flush] if done.flush else []
        counts = clickstream_oracle.action_counts([*actions, *flush], doubtful | {e.event_id for e in flush})
        kinds.append(("action_counts", "action-count", list(counts)))
        kinds.append(("sessions", "session", list(clickstream_oracle.sessions(actions, doubtful))))
        kinds.append(("totals", "total", list(clickstream_oracle.totals(actions, doubtful))))
    encoder = msgspec.json.Encoder(decimal_format="number")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        first = {"kind": "summary", **summary, **{name: len(lines) for name, _, lines in kinds}}
        file.write(encoder.encode(first) + b"\n")
        for _, kind, lines in kinds:
            for line in lines:
                file.write(encoder.encode({"kind": kind, **line}) + b"\n")


class _Held:
    """What a topic holds of a run, in its order."""

    def __init__(self, sent: Sent) -> None:
        self.plan, self.flush = sent.plan, sent.flush
        self.rows = sent.acknowledged.in_topic_order()
        self.malformed: Bools = (self.rows[:, 1] & Mark.MALFORMED) > 0
        event_ms = self.plan.event_ms(self.rows[:, 0])
        self.ahead: Bools = event_ms > self.rows[:, 4] + AHEAD_MS

    def records(self) -> Iterator[Any]:
        """Yield the records that jobs by event time can read, the flush record not among them."""
        good = self.rows[~self.malformed & ~self.ahead][:, 0]
        for start in range(0, len(good), CHUNK):
            yield from self.plan.records(good[start : start + CHUNK])

    def too_late(self) -> set[str]:
        """Return the ids of the events that came later than the watermark."""
        beyond = self.rows[(self.rows[:, 1] & Mark.TOO_LATE) > 0][:, 0]
        return {record.event_id for record in self.plan.records(beyond)}


def _alerts(racks: _Held, plan: Plan) -> Iterator[dict[str, Any]]:
    good = racks.rows[~racks.malformed]
    numbers = good[:, 0] % len(plan.world.rack_ids)
    by_rack = np.argsort(numbers, kind="stable")
    # Rack by rack, so that only one rack's records are in memory at a time.
    for rows in np.split(good[by_rack], np.flatnonzero(np.diff(numbers[by_rack])) + 1):
        if len(rows):
            rack = int(rows[0, 0]) % len(plan.world.rack_ids)
            thresholds = {plan.world.rack_ids[rack]: float(plan.world.threshold[rack]) / 100}
            yield from overheating_alerts(plan.records(rows[:, 0]), thresholds)


def _attributions(shown: _Held, clicked: _Held) -> Iterator[dict[str, Any]]:
    doubtful = shown.too_late() | clicked.too_late()
    return clickstream_oracle.attributions(shown.records(), clicked.records(), doubtful)


def _dead_letters(held: _Held) -> Iterator[dict[str, Any]]:
    plan, topic = held.plan, held.plan.topic.name
    bad = held.rows[held.malformed]
    for row, value, kind in zip(bad, plan.values(bad[:, 0]), plan.malformed_kinds(bad[:, 0]), strict=True):
        yield _dead_letter(topic, row, len(value), kind, "all")
    ahead = held.rows[held.ahead & ~held.malformed]
    for row, value in zip(ahead, plan.values(ahead[:, 0]), strict=True):
        yield _dead_letter(topic, row, len(value), "future", "by-event-time")


def _dead_letter(topic: str, row: Ints, size: int, error: str, jobs: str) -> dict[str, Any]:
    return {
        "source_topic": topic,
        "partition": int(row[2]),
        "offset": int(row[3]),
        "value_size": size,
        "error_kind": error,
        "jobs": jobs,
    }


def _windows(racks: _Held) -> Iterator[dict[str, Any]]:
    beyond = racks.plan.records(racks.rows[(racks.rows[:, 1] & Mark.TOO_LATE) > 0][:, 0])
    extra = [] if racks.flush is None else [racks.flush]
    either = {key for record in chain(beyond, extra) for key in _keys(record)}
    for row in temperature_windows(chain(racks.records(), extra)):
        doubt = {"either": True} if (row["scope"], row["window_start"]) in either else {}
        yield {**row, **doubt}


def _keys(record: RackReading) -> set[tuple[str, str]]:
    starts = [to_text(start_ms) for start_ms in window_starts(to_ms(record.event_time))]
    return {(scope, start) for start in starts for scope in (FLEET, record.rack_id)}
