"""Compute the alerts of `rack-overheating` with a state machine per rack (`docs/rules.md`).

With the defaults it is the contract's rule; a test compares them.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from events.constants import DEFAULT_THRESHOLD_C
from events.records import RackReading
from events.rules import READING_HISTORY_SIZE, Overheating
from events.times import to_ms
from producer.expected.oracles.rows import Row, alert, evidence, milliseconds, sequence_key


@dataclass(frozen=True, slots=True)
class _State:
    state: str = "NORMAL"
    severity: str = "info"
    opened: int = -1
    """The position among the rack's readings of the one that opened the `WARNING`."""


_NORMAL = _State()


@dataclass(slots=True)
class _Rack:
    readings: list[RackReading] = field(default_factory=list)
    """All distinct readings that were accepted, by `sequence`, then `event_id`."""
    seen: set[str] = field(default_factory=set)
    states: list[_State] = field(default_factory=list)
    """The rack's state after each of them."""

    @property
    def current(self) -> _State:
        return self.states[-1] if self.states else _NORMAL


def _defaults(_rack_id: str) -> Overheating:
    return Overheating()


def overheating_alerts(
    readings: Iterable[RackReading], rule_for: Callable[[str], Overheating] = _defaults
) -> list[Row]:
    """Return the alerts of readings that are in the topic's order, in that order.

    `rule_for` returns a rack's rule, with its threshold and severity; see `rule_lookup`.
    """
    racks: dict[str, _Rack] = defaultdict(_Rack)
    alerts = []
    for reading in readings:
        rack, rule = racks[reading.rack_id], rule_for(reading.rack_id)
        before = rack.current
        _add(rack, reading, rule)
        after = rack.current
        if after is not before and (after.state, after.severity) != (before.state, before.severity):
            last = [evidence(one) for one in rack.readings[-rule.count :]]
            alerts.append(
                alert(
                    rule.name,
                    reading.rack_id,
                    reading.site_id,
                    after.state,
                    after.severity,
                    reading.event_time,
                    reading.event_id,
                    last,
                )
            )
    return alerts


def _add(rack: _Rack, reading: RackReading, rule: Overheating) -> None:
    if reading.event_id in rack.seen:
        return
    rack.seen.add(reading.event_id)
    place = bisect(rack.readings, sequence_key(reading), key=sequence_key)
    if len(rack.readings) - place >= READING_HISTORY_SIZE:
        return
    rack.readings.insert(place, reading)
    # The states before its place stay; those from there on are computed again.
    del rack.states[place:]
    for at in range(place, len(rack.readings)):
        rack.states.append(_next_state(rack.current, rack.readings, at, rule))


def _next_state(
    before: _State, readings: Sequence[RackReading], at: int, rule: Overheating
) -> _State:
    """Return the state after the reading at a position."""
    if before.state == "NORMAL":
        if _opens(readings, at, rule):
            return _State("WARNING", rule.severity_of(None), at)
        return before
    if readings[at].temperature_c < _clear_below_c(rule):
        return _NORMAL
    if _keeps_rising(readings, before.opened, at, rule) or _lasts_too_long(
        readings[before.opened], readings[at], rule
    ):
        return _State("WARNING", "critical", before.opened)
    return before


def _threshold_c(rule: Overheating) -> float:
    return DEFAULT_THRESHOLD_C if rule.threshold_c is None else rule.threshold_c


def _clear_below_c(rule: Overheating) -> float:
    return _threshold_c(rule) if rule.clear_below_c is None else rule.clear_below_c


def _opens(readings: Sequence[RackReading], at: int, rule: Overheating) -> bool:
    threshold_c = _threshold_c(rule)
    if readings[at].temperature_c < threshold_c:
        return False
    last = readings[max(0, at + 1 - rule.count) : at + 1]
    if len(last) < rule.count or any(one.temperature_c < threshold_c for one in last):
        return False
    if rule.within_s is None:
        return True
    took_ms = to_ms(last[-1].event_time) - to_ms(last[0].event_time)
    return took_ms <= milliseconds(rule.within_s)


def _keeps_rising(readings: Sequence[RackReading], opened: int, at: int, rule: Overheating) -> bool:
    """Return whether this reading completes `rising` ever higher ones after the opening one."""
    if rule.rising is None or at != opened + rule.rising:
        return False
    celsius = [one.temperature_c for one in readings[opened : at + 1]]
    return all(later > earlier for earlier, later in pairwise(celsius))


def _lasts_too_long(opening: RackReading, reading: RackReading, rule: Overheating) -> bool:
    if rule.critical_after_s is None:
        return False
    return to_ms(reading.event_time) - to_ms(opening.event_time) > milliseconds(
        rule.critical_after_s
    )
