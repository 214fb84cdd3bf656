"""`rack-overheating` with a rule in the file: a state machine over a rack's readings in their own order."""

from bisect import bisect, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import RackReading
from events.rules import KEPT_READINGS, Overheating
from events.times import to_ms
from producer.rule_oracles.rows import Row, alert, evidence, in_order, milliseconds


@dataclass(frozen=True, slots=True)
class _Condition:
    state: str = "NORMAL"
    severity: str = "info"
    opened: int = -1
    """Where among the rack's readings the one stands that opened the `WARNING`."""


@dataclass(slots=True)
class _Rack:
    readings: list[RackReading] = field(default_factory=list)
    """All distinct ones that were taken, in order of `sequence`, then `event_id`."""
    seen: set[str] = field(default_factory=set)
    conditions: list[_Condition] = field(default_factory=list)
    """What the rack is in after each of them."""


def overheating_state_alerts(
    readings: Iterable[RackReading], rule_of: Callable[[str], Overheating]
) -> list[Row]:
    """Return the alerts of readings in the order in which the topic holds them, in that order."""
    racks: dict[str, _Rack] = defaultdict(_Rack)
    alerts = []
    for reading in readings:
        rack, rule = racks[reading.rack_id], rule_of(reading.rack_id)
        before = _now(rack)
        _take(rack, reading, rule)
        after = _now(rack)
        if (after.state, after.severity) != (before.state, before.severity):
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


def _now(rack: _Rack) -> _Condition:
    return rack.conditions[-1] if rack.conditions else _Condition()


def _take(rack: _Rack, reading: RackReading, rule: Overheating) -> None:
    if reading.event_id in rack.seen:
        return
    rack.seen.add(reading.event_id)
    place = bisect(rack.readings, in_order(reading), key=in_order)
    if len(rack.readings) - place >= KEPT_READINGS:
        return
    insort(rack.readings, reading, key=in_order)
    # What came before its place stays as it was; from there on, one by one again.
    del rack.conditions[place:]
    for at in range(place, len(rack.readings)):
        rack.conditions.append(_after(_now(rack), rack.readings[: at + 1], rule))


def _after(before: _Condition, readings: Sequence[RackReading], rule: Overheating) -> _Condition:
    """Return what the last of these readings makes of the condition before it."""
    here = len(readings) - 1
    if before.state == "NORMAL":
        if _opens(readings, rule):
            return _Condition("WARNING", rule.severity_of(None), here)
        return before
    if readings[here].temperature_c < _clear_below_c(rule):
        return _Condition()
    if _keeps_rising(readings, before.opened, rule) or _lasts_too_long(readings, before.opened, rule):
        return _Condition("WARNING", "critical", before.opened)
    return before


def _threshold_c(rule: Overheating) -> float:
    return DEFAULT_THRESHOLD_C if rule.threshold_c is None else rule.threshold_c


def _clear_below_c(rule: Overheating) -> float:
    return _threshold_c(rule) if rule.clear_below_c is None else rule.clear_below_c


def _opens(readings: Sequence[RackReading], rule: Overheating) -> bool:
    last = readings[-rule.count :]
    if len(last) < rule.count or any(one.temperature_c < _threshold_c(rule) for one in last):
        return False
    took_ms = to_ms(last[-1].event_time) - to_ms(last[0].event_time)
    return rule.within_s is None or took_ms <= milliseconds(rule.within_s)


def _keeps_rising(readings: Sequence[RackReading], opened: int, rule: Overheating) -> bool:
    """Tell whether this is the last of the first `rising` readings after the opening one, all of them higher."""
    if rule.rising is None or len(readings) - 1 != opened + rule.rising:
        return False
    celsius = [one.temperature_c for one in readings[opened:]]
    return all(later > earlier for earlier, later in pairwise(celsius))


def _lasts_too_long(readings: Sequence[RackReading], opened: int, rule: Overheating) -> bool:
    lasts_ms = to_ms(readings[-1].event_time) - to_ms(readings[opened].event_time)
    return rule.critical_after_s is not None and lasts_ms > milliseconds(rule.critical_after_s)
