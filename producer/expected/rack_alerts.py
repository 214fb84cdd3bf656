"""The expected alerts of a run's readings, by the oracles of the selected rules.

They are computed rack by rack, so that only one rack's records are in memory at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from events.cli import UserFacingError
from events.records import InventoryRack, RackReading
from events.rules import RULE_TYPES, AnyRule, LostSignal, Rules, SilentSensor
from events.times import to_ms
from producer.expected.oracles.lost_signal import (
    WATERMARK_MS,
    fleet_latest_ms,
    lost_signal_alerts_of_rack,
)
from producer.expected.oracles.rows import Row
from producer.expected.oracles.rule_lookup import effective_rule
from producer.expected.oracles.silent_sensor import (
    initial_silence_alerts,
    silent_sensor_alerts_of_rack,
)
from producer.expected.topic_contents import TopicContents
from producer.hashing import Ints
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


@dataclass(frozen=True, slots=True)
class _RackRecords:
    """The readable records of one rack in the topic's order; times in epoch ms."""

    rack: InventoryRack
    readings: list[RackReading]
    append_ms: list[int]
    fleet_ms: list[int]
    """The latest event time of the fleet before each record."""
    not_future: list[bool]
    """Whether jobs by event time read the record."""


def parse_rule_names(text: str) -> tuple[str, ...]:
    """Return the rules in a comma-separated list; raise `UserFacingError` for an unsuitable one."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name == SITE_OUTAGE:
            raise UserFacingError(
                f"--alerts-of {text}: site-outage follows from alerts, not from readings, so the "
                f"producer cannot know it: choose from {', '.join(READING_RULES)}."
            )
        if name not in READING_RULES:
            raise UserFacingError(
                f"--alerts-of {text}: unknown rule {name!r}; "
                f"choose from {', '.join(READING_RULES)}."
            )
    return names


def rack_alerts(
    contents: TopicContents, plan: ReadingPlan, selection: AlertSelection
) -> Iterator[Row]:
    """Yield the alerts of all racks; indeterminate ones have `"either": True`."""
    flush, append_ms = contents.flush, contents.flush_append_ms
    event_times_ms = _event_times_ms(contents).tolist()
    if flush:
        event_times_ms.append(to_ms(flush.event_time))
    until_ms = max(event_times_ms, default=0)
    for records in _racks(contents, plan):
        for name in selection.names:
            yield from _alerts(records, name, selection, until_ms)
    if flush and append_ms is not None and SILENT_SENSOR in selection.names:
        rule = effective_rule(SilentSensor, selection.rules, flush.rack_id, None)
        yield from silent_sensor_alerts_of_rack([(flush, append_ms)], rule)


def _alerts(
    records: _RackRecords, name: str, selection: AlertSelection, until_ms: int
) -> Iterator[Row]:
    rack, rack_id, readings = records.rack, records.rack.rack_id, records.readings
    rules = selection.rules
    if name == LOST_SIGNAL:
        rows = zip(readings, records.fleet_ms, records.not_future, strict=True)
        accepted = [(reading, fleet_ms) for reading, fleet_ms, not_future in rows if not_future]
        lost = effective_rule(LostSignal, rules, rack_id, rack)
        watermark_ms = selection.lost_signal_watermark_ms
        yield from lost_signal_alerts_of_rack(accepted, lost, watermark_ms, until_ms)
    elif name == SILENT_SENSOR:
        appended = list(zip(readings, records.append_ms, strict=True))
        silent = effective_rule(SilentSensor, rules, rack_id, rack)
        yield from initial_silence_alerts(appended, silent, rack, None)
        yield from silent_sensor_alerts_of_rack(appended, silent)
    else:
        rule = effective_rule(RULE_TYPES[name], rules, rack_id, rack)
        yield from _oracle(name)(readings, lambda _: rule)


def _oracle(name: str) -> Callable[[list[RackReading], Callable[[str], AnyRule]], list[Row]]:
    """Return the oracle of a rule that follows from the order of a rack's readings alone."""
    module = import_module(f"producer.expected.oracles.{RULE_JOBS[name]}")
    oracle: Callable[..., list[Row]] = getattr(module, f"{RULE_JOBS[name]}_alerts")
    return oracle


def _event_times_ms(contents: TopicContents) -> Ints:
    return contents.event_ms[~contents.malformed & ~contents.future]


def _racks(contents: TopicContents, plan: ReadingPlan) -> Iterator[_RackRecords]:
    readable = ~contents.malformed
    rows, not_future = contents.rows[readable], ~contents.future[readable]
    fleet_ms = np.zeros(len(rows), dtype=np.int64)
    fleet_ms[not_future] = list(fleet_latest_ms(_event_times_ms(contents).tolist()))
    racks = rows[:, 0] % plan.subjects
    by_rack = np.argsort(racks, kind="stable")
    for places in np.split(by_rack, np.flatnonzero(np.diff(racks[by_rack])) + 1):
        if len(places):
            yield _RackRecords(
                plan.world.rack(
                    int(racks[places[0]]), plan.schedule.event_time_rate / plan.subjects
                ),
                plan.records(rows[places, 0]),
                rows[places, 4].tolist(),
                fleet_ms[places].tolist(),
                not_future[places].tolist(),
            )
