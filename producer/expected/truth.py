"""Write the truth: the expected output of a run's acknowledged records, as JSON lines.

Kinds of lines: `summary` (first), `dead-letter`; of racks `alert` and `window`; of clicks
`attribution`; of actions `action-count` (per action, windows of 10 minutes), `session` and `total`.
A row that late data may change is indeterminate: marked `"either": true`, and excluded from the
verdict. So is a row that the run may end before. Flush records appear only in the windows that
count them and in the silence after them, both marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from events.constants import FLEET_SCOPE
from events.records import DeadLetterReason, RackReading
from events.times import to_ms, to_text
from producer.expected.oracles import clickstream
from producer.expected.oracles.rack_temperature import temperature_windows, window_starts
from producer.expected.oracles.rows import mark_indeterminate
from producer.expected.rack_alerts import AlertSelection, rack_alerts
from producer.expected.topic_contents import PublishedStream, TopicContents
from producer.hashing import Ints
from producer.streams.actions import ActionPlan
from producer.streams.clicks import ClickPlan, ImpressionPlan
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_plan import FaultFlag


def write_truth(
    path: Path,
    published: Sequence[PublishedStream],
    summary: Mapping[str, Any],
    selection: AlertSelection | None = None,
) -> None:
    """Write the truth of a run; its first line, the summary, counts the lines of each kind."""
    selection = selection or AlertSelection()
    contents = [TopicContents(stream) for stream in published]
    kinds = [
        ("dead_letters", "dead-letter", list(chain.from_iterable(map(_dead_letters, contents))))
    ]
    for topic in contents:
        if isinstance(topic.plan, ReadingPlan):
            kinds.insert(0, ("alerts", "alert", list(rack_alerts(topic, topic.plan, selection))))
            kinds.append(("windows", "window", list(_windows(topic))))
    by_plan = {type(topic.plan): topic for topic in contents}
    if ClickPlan in by_plan:
        rows = _attributions(by_plan[ImpressionPlan], by_plan[ClickPlan])
        kinds.append(("attributions", "attribution", list(rows)))
    if ActionPlan in by_plan:
        topic = by_plan[ActionPlan]
        actions, too_late_ids = list(topic.records()), topic.too_late()
        flush = [topic.flush] if topic.flush else []
        counts = clickstream.action_counts(
            [*actions, *flush], too_late_ids | {e.event_id for e in flush}
        )
        kinds.append(("action_counts", "action-count", list(counts)))
        kinds.append(("sessions", "session", list(clickstream.sessions(actions, too_late_ids))))
        kinds.append(("totals", "total", list(clickstream.totals(actions, too_late_ids))))
    encoder = msgspec.json.Encoder(decimal_format="number")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        first = {"kind": "summary", **summary, **{name: len(lines) for name, _, lines in kinds}}
        file.write(encoder.encode(first) + b"\n")
        for _, kind, lines in kinds:
            for line in lines:
                file.write(encoder.encode({"kind": kind, **line}) + b"\n")


def _attributions(shown: TopicContents, clicked: TopicContents) -> Iterator[dict[str, Any]]:
    too_late_ids = shown.too_late() | clicked.too_late()
    return clickstream.attributions(shown.records(), clicked.records(), too_late_ids)


def _dead_letters(contents: TopicContents) -> Iterator[dict[str, Any]]:
    plan, topic = contents.plan, contents.plan.topic.name
    bad = contents.rows[contents.malformed]
    for row, value, kind in zip(
        bad, plan.values(bad[:, 0]), plan.malformed_kinds(bad[:, 0]), strict=True
    ):
        yield _dead_letter(topic, row, len(value), "unreadable", kind)
    future = contents.rows[contents.future & ~contents.malformed]
    for row, value in zip(future, plan.values(future[:, 0]), strict=True):
        yield _dead_letter(topic, row, len(value), "future", "future")


def _dead_letter(
    topic: str, row: Ints, size: int, reason: DeadLetterReason, error: str
) -> dict[str, Any]:
    return {
        "source_topic": topic,
        "partition": int(row[2]),
        "offset": int(row[3]),
        "value_size": size,
        "reason": reason,
        "error_kind": error,
    }


def _windows(racks: TopicContents) -> Iterator[dict[str, Any]]:
    beyond = racks.plan.records(racks.rows[(racks.rows[:, 1] & FaultFlag.TOO_LATE) > 0][:, 0])
    extra = [] if racks.flush is None else [racks.flush]
    late_keys = {key for record in chain(beyond, extra) for key in _window_keys(record)}
    for row in temperature_windows(chain(racks.records(), extra)):
        yield mark_indeterminate(row, (row["scope"], row["window_start"]) in late_keys)


def _window_keys(record: RackReading) -> set[tuple[str, str]]:
    starts = [to_text(start_ms) for start_ms in window_starts(to_ms(record.event_time))]
    return {(scope, start) for start in starts for scope in (FLEET_SCOPE, record.rack_id)}
