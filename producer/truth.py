"""What must come out of a run? Its acknowledged records, taken through the oracles, written as JSON lines.

Kinds of lines: `summary` (first), `dead-letter`; of racks `alert` and `window`; of clicks `attribution`; of actions
`action-count` (per action, windows of 10 minutes), `session` and `total`. A line that Spark promises nothing about,
because a record beyond the watermark belongs to it, or because the run may end before it, has `"either": true`. Flush
records are in no line but that of the window that counts them and that of the silence after them, both in doubt.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from events.records import RackReading
from events.times import to_ms, to_text
from producer import clickstream_oracle
from producer.actions import ActionPlan
from producer.clicks import ClickPlan, ImpressionPlan
from producer.hashing import Ints
from producer.held import Held, Sent
from producer.oracle import FLEET, temperature_windows, window_starts
from producer.plan import Plan
from producer.stream import Mark
from producer.truth_alerts import Wanted, alerts


def write_truth(
    path: Path, sent: Sequence[Sent], summary: Mapping[str, Any], wanted: Wanted | None = None
) -> None:
    """Write the truth of a run; its first line is the summary, with the number of lines of each kind."""
    held, wanted = [Held(part) for part in sent], wanted or Wanted()
    kinds = [("dead_letters", "dead-letter", list(chain.from_iterable(map(_dead_letters, held))))]
    for topic in held:
        if isinstance(topic.plan, Plan):
            kinds.insert(0, ("alerts", "alert", list(alerts(topic, topic.plan, wanted))))
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


def _attributions(shown: Held, clicked: Held) -> Iterator[dict[str, Any]]:
    doubtful = shown.too_late() | clicked.too_late()
    return clickstream_oracle.attributions(shown.records(), clicked.records(), doubtful)


def _dead_letters(held: Held) -> Iterator[dict[str, Any]]:
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


def _windows(racks: Held) -> Iterator[dict[str, Any]]:
    beyond = racks.plan.records(racks.rows[(racks.rows[:, 1] & Mark.TOO_LATE) > 0][:, 0])
    extra = [] if racks.flush is None else [racks.flush]
    either = {key for record in chain(beyond, extra) for key in _keys(record)}
    for row in temperature_windows(chain(racks.records(), extra)):
        doubt = {"either": True} if (row["scope"], row["window_start"]) in either else {}
        yield {**row, **doubt}


def _keys(record: RackReading) -> set[tuple[str, str]]:
    starts = [to_text(start_ms) for start_ms in window_starts(to_ms(record.event_time))]
    return {(scope, start) for start in starts for scope in (FLEET, record.rack_id)}
