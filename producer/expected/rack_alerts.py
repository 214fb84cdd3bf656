"""Compute the expected alerts of a run's readings, by the oracles of the selected rules.

They are computed rack by rack, so that only one rack's records are in memory at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module

import numpy as np

from events.catalog import (
    LOST_SIGNAL,
    RACK_OVERHEATING,
    RULE_JOBS,
    RULES,
    SILENT_SENSOR,
    SITE_OUTAGE,
)
from events.cli import UserFacingError, names_within
from events.records import InventoryRack, RackReading
from events.rules import RULE_TYPES, AnyRule, LostSignal, Rules, SilentSensor
from events.times import to_ms, to_text
from producer.expected.oracles.lost_signal import (
    BEFORE_ALL_MS,
    WATERMARK_MS,
    lost_signal_alerts_of_rack,
)
from producer.expected.oracles.rows import Row
from producer.expected.oracles.rule_lookup import effective_rule
from producer.expected.oracles.silent_sensor import (
    initial_silence_alerts,
    silent_sensor_alerts_of_rack,
)
from producer.expected.topic_contents import TopicContents
from producer.hashing import Bools, Ints
from producer.streams.reading_plan import ReadingPlan

READING_RULES = tuple(rule for rule in RULES if rule != SITE_OUTAGE)
"""The rules whose alerts follow from readings."""
DEFAULT_RULES: tuple[str, ...] = (RACK_OVERHEATING,)
"""The rules in the truth unless others are selected."""


@dataclass(frozen=True, slots=True)
class AlertSelection:
    """Which rules' alerts the truth has, and the content of the rules file, if there is one."""

    names: tuple[str, ...] = DEFAULT_RULES
    rules: Rules = field(default_factory=Rules)
    lost_signal_watermark_ms: int = WATERMARK_MS


class _Readable:
    """The readable records of all racks in the topic's order, flush records included; times in ms.

    A flush record has a negative number: its place among the flush records is `-1 - number`.
    """

    def __init__(self, contents: TopicContents) -> None:
        readable = ~contents.malformed
        rows = contents.rows[readable]
        event_ms, not_future = contents.event_ms[readable], ~contents.future[readable]
        appended = [at_ms for _, at_ms in contents.flushes]
        places = np.searchsorted(rows[:, 4], appended, side="right")
        flush_rows = [[-1 - i, 0, -1, -1, at_ms, -1] for i, at_ms in enumerate(appended)]
        if flush_rows:
            rows = np.insert(rows, places, flush_rows, axis=0)
            flush_ms = [to_ms(flush.event_time) for flush, _ in contents.flushes]
            event_ms = np.insert(event_ms, places, flush_ms)
            not_future = np.insert(not_future, places, True)
        self.rows: Ints = rows
        self.not_future: Bools = not_future
        # Of a future record, event-time jobs see nothing.
        seen_ms = np.where(not_future, event_ms, BEFORE_ALL_MS)
        self._latest_ms: Ints = np.maximum.accumulate(seen_ms)
        self.before_ms: Ints = np.concatenate([[BEFORE_ALL_MS], self._latest_ms[:-1]])
        """The latest event time of the fleet before each record."""

    @property
    def latest_ms(self) -> int:
        """The latest event time of the fleet."""
        return int(self._latest_ms[-1]) if len(self._latest_ms) else 0

    def reached_ms(self, event_ms: int) -> int | None:
        """Return the append time of the first record that is as new, or None if none came."""
        place = int(np.searchsorted(self._latest_ms, event_ms))
        return int(self.rows[place, 4]) if place < len(self.rows) else None


@dataclass(frozen=True)
class _RackRecords:
    """The readable records of one rack in the topic's order; times in epoch ms.

    The subject of the flush records is no rack of the inventory.
    """

    rack: InventoryRack | None
    readings: list[RackReading]
    append_ms: list[int]
    before_ms: list[int]
    """The latest event time of the fleet before each record."""
    not_future: list[bool]
    """Whether event-time jobs read the record."""

    @property
    def rack_id(self) -> str:
        """The rack's id."""
        return self.readings[0].rack_id

    @cached_property
    def appended_ms(self) -> dict[str, int]:
        """When the first copy of the reading with an event time was appended."""
        found: dict[str, int] = {}
        for reading, append_ms in zip(self.readings, self.append_ms, strict=True):
            found.setdefault(reading.event_time, append_ms)
        return found


def parse_rule_names(text: str) -> tuple[str, ...]:
    """Return the rules in a comma-separated list; raise `UserFacingError` for an unsuitable one."""
    if SITE_OUTAGE in (name.strip() for name in text.split(",")):
        raise UserFacingError(
            f"--alerts-of {text}: site-outage follows from alerts, not from readings, so the "
            f"producer cannot know it: choose from {', '.join(READING_RULES)}."
        )
    return names_within("--alerts-of", text, READING_RULES, "rule")


def rack_alerts(contents: TopicContents, selection: AlertSelection) -> Iterator[Row]:
    """Yield the alerts of all racks; indeterminate ones have `"either": True`.

    `decidable_time` is when the topic first held what decides an alert, by its append times.
    """
    readable = _Readable(contents)
    for records in _racks(contents, readable):
        for name in selection.names:
            for row in _alerts(records, name, selection, readable.latest_ms):
                at_ms = _decidable_ms(row, records, readable, selection)
                yield row if at_ms is None else {**row, "decidable_time": to_text(at_ms)}


def _alerts(
    records: _RackRecords, name: str, selection: AlertSelection, until_ms: int
) -> Iterator[Row]:
    rack, rack_id, readings = records.rack, records.rack_id, records.readings
    rules = selection.rules
    if name == LOST_SIGNAL:
        rows = zip(readings, records.before_ms, records.not_future, strict=True)
        accepted = [(reading, before_ms) for reading, before_ms, not_future in rows if not_future]
        lost = effective_rule(LostSignal, rules, rack_id, rack)
        watermark_ms = selection.lost_signal_watermark_ms
        yield from lost_signal_alerts_of_rack(accepted, lost, watermark_ms, until_ms)
    elif name == SILENT_SENSOR:
        appended = list(zip(readings, records.append_ms, strict=True))
        silent = effective_rule(SilentSensor, rules, rack_id, rack)
        if rack is not None:
            yield from initial_silence_alerts(appended, silent, rack, None)
        yield from silent_sensor_alerts_of_rack(appended, silent)
    else:
        rule = effective_rule(RULE_TYPES[name], rules, rack_id, rack)
        yield from _oracle(name)(readings, lambda _: rule)


def _decidable_ms(
    row: Row, records: _RackRecords, readable: _Readable, selection: AlertSelection
) -> int | None:
    """Return when the topic first held what decides an alert, in epoch ms; None if it is unknown.

    A silence lasts long enough at its alert's event time. A window is closed by the first record of
    the fleet that moves the watermark to its end. The other alerts have a deciding reading.
    """
    if row["rule"] == LOST_SIGNAL:
        return readable.reached_ms(to_ms(row["event_time"]) + selection.lost_signal_watermark_ms)
    if row["rule"] == SILENT_SENSOR and row["state"] == "WARNING":
        return to_ms(row["event_time"])
    return records.appended_ms.get(row["event_time"])


def _oracle(name: str) -> Callable[[list[RackReading], Callable[[str], AnyRule]], list[Row]]:
    """Return the oracle of a rule that follows from the order of a rack's readings alone."""
    module = import_module(f"producer.expected.oracles.{RULE_JOBS[name]}")
    oracle: Callable[..., list[Row]] = getattr(module, f"{RULE_JOBS[name]}_alerts")
    return oracle


def _racks(contents: TopicContents, readable: _Readable) -> Iterator[_RackRecords]:
    plan, rows = contents.plans[0], readable.rows
    if not isinstance(plan, ReadingPlan):
        raise TypeError("only readings are of racks")
    racks = np.where(rows[:, 0] < 0, -1, rows[:, 0] % plan.subjects)
    by_rack = np.argsort(racks, kind="stable")
    for places in np.split(by_rack, np.flatnonzero(np.diff(racks[by_rack])) + 1):
        if not len(places):
            continue
        number, own = int(racks[places[0]]), rows[places]
        if number < 0:
            rack, readings = None, [contents.flushes[-1 - place][0] for place in own[:, 0].tolist()]
        else:
            rack = plan.world.rack(number, plan.schedule.event_time_rate / plan.subjects)
            readings = list(contents.drawn(own))
        yield _RackRecords(
            rack,
            readings,
            own[:, 4].tolist(),
            readable.before_ms[places].tolist(),
            readable.not_future[places].tolist(),
        )
