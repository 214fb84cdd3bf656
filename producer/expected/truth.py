"""Write the truth: the expected output of a run's acknowledged records, as JSON lines.

Kinds of lines: `summary` (first), `dead-letter`; of racks `alert`, `window` and
`signal-statistic`; of clicks `attribution`; of actions `action-count` (per action, windows of 10
minutes), `session` and `total`. A row that late data may change is indeterminate: marked `"either":
true`, and excluded from the verdict. So is a row that the run may end before. Flush records appear
only in the windows that count them and in the silence after them, both marked.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from events.constants import CLICKS_WATERMARK, FLEET_SCOPE, IMPRESSIONS_WATERMARK, WATERMARK
from events.files import writing
from events.records import DeadLetterReason, RackReading
from events.times import duration_ms, to_ms, to_text
from producer.expected.oracles import clickstream
from producer.expected.oracles.rack_temperature import temperature_windows, window_starts
from producer.expected.oracles.rows import mark_indeterminate, mark_not_due
from producer.expected.oracles.signal_statistics import signal_statistics
from producer.expected.rack_alerts import AlertSelection, rack_alerts
from producer.expected.topic_contents import PublishedStream, TopicContents
from producer.hashing import Ints
from producer.streams.actions import ActionPlan
from producer.streams.clicks import ClickPlan, ImpressionPlan
from producer.streams.reading_plan import ReadingPlan

KINDS = (
    "alert",
    "dead-letter",
    "window",
    "signal-statistic",
    "attribution",
    "action-count",
    "session",
    "total",
)
"""The kinds of lines beside the summary."""


def write_truth(
    path: Path,
    published: Sequence[PublishedStream],
    summary: Mapping[str, Any],
    selection: AlertSelection | None = None,
    kinds: Collection[str] = KINDS,
) -> None:
    """Write the truth of a run; its first line, the summary, counts the lines of each kind.

    Raises `UserFacingError` when the file cannot be written.
    """
    contents = [TopicContents([stream]) for stream in published]
    rows_by_kind = truth_rows(contents, selection, kinds)
    names = {kind: kind.replace("-", "_") + "s" for kind in rows_by_kind}
    encoder = msgspec.json.Encoder(decimal_format="number")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            counts = {names[kind]: len(rows) for kind, rows in rows_by_kind.items()}
            file.write(encoder.encode({"kind": "summary", **summary, **counts}) + b"\n")
            for kind, rows in rows_by_kind.items():
                for row in rows:
                    file.write(encoder.encode({"kind": kind, **row}) + b"\n")


def check_writable(path: Path) -> None:
    """Make the truth's folder; raise `UserFacingError` if the truth cannot be written."""
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        path.open("ab").close()
        if is_new:
            path.unlink()  # an empty file is no truth


def _writing(path: Path) -> AbstractContextManager[None]:
    advice = "correct --truth, its folder's owner, or make room on its disk"
    return writing(f"the truth {path}", advice)


def truth_rows(
    contents: Sequence[TopicContents],
    selection: AlertSelection | None = None,
    kinds: Collection[str] = KINDS,
    *,
    goes_on: bool = False,
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the truth by kind, of what some topics contain.

    Only the given kinds are computed, as far as the topics have them. If the runs go on
    (`goes_on`), sessions, unclicked impressions and windows that wait for the watermark are marked
    `not_due`. Otherwise they have ended with flush records, which have closed everything but what
    they open themselves.
    """
    by_plan = {type(topic.plans[0]): topic for topic in contents}
    rows_of: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {}
    if ReadingPlan in by_plan:
        racks = by_plan[ReadingPlan]
        rows_of["alert"] = partial(rack_alerts, racks, selection or AlertSelection())
        rows_of["window"] = partial(_windows, racks, goes_on=goes_on)
        rows_of["signal-statistic"] = partial(_signal_statistics, racks)
    rows_of["dead-letter"] = lambda: chain.from_iterable(map(_dead_letters, contents))
    if ClickPlan in by_plan:
        shown, clicked = by_plan[ImpressionPlan], by_plan[ClickPlan]
        rows_of["attribution"] = partial(_attributions, shown, clicked, goes_on=goes_on)
    if ActionPlan in by_plan:
        topic = by_plan[ActionPlan]

        @cache
        def actions() -> list[Any]:
            return list(topic.records())

        too_late_ids = topic.too_late()
        rows_of["action-count"] = lambda: _action_counts(actions(), topic, too_late_ids)
        rows_of["session"] = lambda: _sessions(actions(), topic, too_late_ids, goes_on=goes_on)
        rows_of["total"] = lambda: clickstream.totals(actions(), too_late_ids)
    return {kind: list(rows_of[kind]()) for kind in KINDS if kind in kinds and kind in rows_of}


def distinct_events(contents: TopicContents) -> list[dict[str, Any]]:
    """Return each event of a topic once, flush records included.

    It is indeterminate if it or one of its copies came too late.
    """
    too_late_ids, seen = contents.too_late(), set[str]()
    rows = []
    for event in chain(contents.records(), (flush for flush, _ in contents.flushes)):
        if event.event_id not in seen:
            seen.add(event.event_id)
            row = msgspec.structs.asdict(event)
            rows.append(mark_indeterminate(row, event.event_id in too_late_ids))
    return rows


def _attributions(
    shown: TopicContents, clicked: TopicContents, *, goes_on: bool
) -> Iterator[dict[str, Any]]:
    too_late_ids = shown.too_late() | clicked.too_late()
    if not goes_on:
        return clickstream.attributions(shown.records(), clicked.records(), too_late_ids)
    watermark_ms = min(  # the slower topic counts
        shown.latest_ms() - duration_ms(IMPRESSIONS_WATERMARK),
        clicked.latest_ms() - duration_ms(CLICKS_WATERMARK),
    )
    impressions = chain(shown.records(), (flush for flush, _ in shown.flushes))
    clicks = chain(clicked.records(), (flush for flush, _ in clicked.flushes))
    return clickstream.attributions(impressions, clicks, too_late_ids, watermark_ms)


def _action_counts(
    actions: list[Any], topic: TopicContents, too_late_ids: set[str]
) -> Iterable[dict[str, Any]]:
    flushes = [flush for flush, _ in topic.flushes]
    indeterminate_ids = too_late_ids | {flush.event_id for flush in flushes}
    return clickstream.action_counts([*actions, *flushes], indeterminate_ids)


def _sessions(
    actions: list[Any], topic: TopicContents, too_late_ids: set[str], *, goes_on: bool
) -> Iterable[dict[str, Any]]:
    if not goes_on:
        return clickstream.sessions(actions, too_late_ids)
    watermark_ms = topic.latest_ms() - duration_ms(WATERMARK)
    flushes = [flush for flush, _ in topic.flushes]
    return clickstream.sessions([*actions, *flushes], too_late_ids, watermark_ms)


def _dead_letters(contents: TopicContents) -> Iterator[dict[str, Any]]:
    malformed = contents.rows[contents.malformed]
    for plan, rows in contents.by_run(malformed):
        kinds = plan.malformed_kinds(rows[:, 0])
        for row, value, kind in zip(rows, plan.values(rows[:, 0]), kinds, strict=True):
            yield _dead_letter(plan.topic.name, row, len(value), "unreadable", kind)
    future = contents.rows[contents.future & ~contents.malformed]
    for plan, rows in contents.by_run(future):
        for row, value in zip(rows, plan.values(rows[:, 0]), strict=True):
            yield _dead_letter(plan.topic.name, row, len(value), "future", "future")


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


def _windows(racks: TopicContents, *, goes_on: bool) -> Iterator[dict[str, Any]]:
    flushes = [flush for flush, _ in racks.flushes]
    late = chain(racks.too_late_records(), flushes)
    late_keys = {key for record in late for key in _window_keys(record)}
    watermark_ms = racks.latest_ms() - duration_ms(WATERMARK) if goes_on else None
    for window in temperature_windows(chain(racks.records(), flushes)):
        row = mark_not_due(window, to_ms(window["window_end"]), watermark_ms)
        yield mark_indeterminate(row, (row["scope"], row["window_start"]) in late_keys)


def _signal_statistics(racks: TopicContents) -> list[dict[str, Any]]:
    flushes = [flush for flush, _ in racks.flushes]
    indeterminate_ids = racks.too_late() | {flush.event_id for flush in flushes}
    return signal_statistics(chain(racks.records(), flushes), indeterminate_ids)


def _window_keys(record: RackReading) -> set[tuple[str, str]]:
    starts = [to_text(start_ms) for start_ms in window_starts(to_ms(record.event_time))]
    return {(scope, start) for start in starts for scope in (FLEET_SCOPE, record.rack_id)}
