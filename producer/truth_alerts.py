"""Which alerts must come out of a run's readings? Those of each rack, taken through the oracles of the rules wanted.

Rack by rack, so that only one rack's records are in memory at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from events.cli import PersonError
from events.records import InventoryRack, RackReading
from events.rules import LostSignal, Overheating, Rules, SilentSensor, WeakSignal
from events.times import to_ms
from producer.hashing import Ints
from producer.held import Held
from producer.oracle import overheating_alerts
from producer.plan import Plan
from producer.rule_oracles import overheating_state_alerts, weak_signal_alerts
from producer.rule_oracles.asked import asked_of
from producer.rule_oracles.lost_signal import WATERMARK_MS, latest_before, lost_signal_alerts_of_rack
from producer.rule_oracles.rows import Row
from producer.rule_oracles.silent_sensor import before_the_first, silent_sensor_alerts_of_rack

OF_READINGS = ("rack-overheating", "weak-signal", "lost-signal", "silent-sensor")
"""The rules whose alerts follow from readings."""
USUAL = OF_READINGS[:1]
"""Those that the truth has where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose alerts the truth is to have, and the rules of a file, if there is one."""

    names: tuple[str, ...] = USUAL
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class _OfRack:
    """The readable records of one rack in the topic's order; times in epoch ms."""

    rack: InventoryRack
    readings: list[RackReading]
    append_ms: list[int]
    fleet_ms: list[int]
    """The latest event time of the fleet before each."""
    punctual: list[bool]
    """Whether jobs by event time take it."""


def names_of(text: str) -> tuple[str, ...]:
    """Return the rules that a list with commas names; raise `PersonError` for one that readings say nothing of."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name == "site-outage":
            raise PersonError(
                f"--alerts-of {text}: site-outage follows from alerts, not from readings, so that the producer "
                f"cannot tell: choose of {', '.join(OF_READINGS)}."
            )
        if name not in OF_READINGS:
            raise PersonError(f"--alerts-of {text}: there is no rule {name!r}, but {', '.join(OF_READINGS)}.")
    return names


def alerts(held: Held, plan: Plan, wanted: Wanted) -> Iterator[Row]:
    """Yield the alerts of all racks; those about which nothing is promised have `"either": True`."""
    until_ms = max(
        [*_punctual(held).tolist(), *([to_ms(held.flush.event_time)] if held.flush else [])], default=0
    )
    for own in _racks(held, plan):
        for name in wanted.names:
            yield from _alerts(own, name, wanted.rules, until_ms)
    if held.flush and held.flush_append_ms is not None and "silent-sensor" in wanted.names:
        rule = asked_of(SilentSensor, wanted.rules, held.flush.rack_id, None)
        yield from silent_sensor_alerts_of_rack([(held.flush, held.flush_append_ms)], rule)


def _alerts(own: _OfRack, name: str, rules: Rules, until_ms: int) -> Iterator[Row]:
    rack, rack_id, readings = own.rack, own.rack.rack_id, own.readings
    if name == "rack-overheating" and rules.of(Overheating):
        heat = asked_of(Overheating, rules, rack_id, rack)
        yield from overheating_state_alerts(readings, lambda _: heat)
    elif name == "rack-overheating":
        severities = {rack_id: rack.severity} if rack.severity else {}
        yield from overheating_alerts(readings, {rack_id: rack.threshold_c}, severities)
    elif name == "weak-signal":
        weak = asked_of(WeakSignal, rules, rack_id, rack)
        yield from weak_signal_alerts(readings, lambda _: weak)
    elif name == "lost-signal":
        told = zip(readings, own.fleet_ms, own.punctual, strict=True)
        punctual = [(reading, fleet_ms) for reading, fleet_ms, is_punctual in told if is_punctual]
        lost = asked_of(LostSignal, rules, rack_id, rack)
        yield from lost_signal_alerts_of_rack(punctual, lost, WATERMARK_MS, until_ms)
    elif name == "silent-sensor":
        records = list(zip(readings, own.append_ms, strict=True))
        silent = asked_of(SilentSensor, rules, rack_id, rack)
        yield from before_the_first(records, silent, rack, None)
        yield from silent_sensor_alerts_of_rack(records, silent)


def _punctual(held: Held) -> Ints:
    return held.event_ms[~held.malformed & ~held.ahead]


def _racks(held: Held, plan: Plan) -> Iterator[_OfRack]:
    readable = ~held.malformed
    rows, punctual = held.rows[readable], ~held.ahead[readable]
    fleet_ms = np.zeros(len(rows), dtype=np.int64)
    fleet_ms[punctual] = list(latest_before(_punctual(held).tolist()))
    racks = rows[:, 0] % plan.subjects
    by_rack = np.argsort(racks, kind="stable")
    for places in np.split(by_rack, np.flatnonzero(np.diff(racks[by_rack])) + 1):
        if len(places):
            yield _OfRack(
                plan.world.rack(int(racks[places[0]]), plan.schedule.per_event_second / plan.subjects),
                plan.records(rows[places, 0]),
                rows[places, 4].tolist(),
                fleet_ms[places].tolist(),
                punctual[places].tolist(),
            )
