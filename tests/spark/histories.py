"""Readings as a topic may hold them: gaps, copies, late arrivals, wrong clocks. What of alerts to compare."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from events.records import RackReading
from events.times import to_text

T0 = 1_795_000_000_000
"""2026-11-18T11:06:40Z"""
HOT, AT, BELOW, COLD = 104.5, 100.0, 99.99, 70.0
"""Around 100 °C, the threshold of a rack that no inventory names."""

_HOUR_MS = 3_600_000
_HOT_SPELL, _COLD_SPELL = [HOT, HOT, HOT, AT, AT, AT, BELOW], [COLD, COLD, BELOW, HOT]
_JOBS_OWN_FIELDS = {"detected_time", "summary"}


def reading(
    sequence: int, temperature_c: float = COLD, rack: str = "rack-0001", **changes: Any
) -> RackReading:
    """Return a reading of a rack, one second after the one numbered before it."""
    fields: dict[str, Any] = {
        "event_id": f"{rack}/{sequence}",
        "event_time": to_text(T0 + 1000 * sequence),
        "rack_id": rack,
        "sequence": sequence,
        "site_id": "site-a",
        "device_type": "gpu-server",
        "temperature_c": temperature_c,
        "signal_strength": 0.9,
    }
    return RackReading(**fields | changes)


def deliveries(
    random: Random, rack: str = "rack-0001", readings: int = 12, start_ms: int = T0
) -> list[RackReading]:
    """Return one rack's readings in the order of a topic, each there one to three times.

    Hot spells prevail, so that the state changes often. Ids do not sort as numbers do, and clocks may be wrong.
    """
    sequence, spell = 0, _HOT_SPELL
    sent: list[tuple[int, RackReading]] = []
    for place in range(readings):
        sequence += random.choice([1, 1, 1, 2, 9])
        if random.random() < 0.25:
            spell = random.choice([_HOT_SPELL, _HOT_SPELL, _COLD_SPELL])
        measured = reading(
            sequence,
            random.choice(spell),
            rack,
            event_id=f"{random.randrange(1 << 24):06x}-{rack}-{sequence}",
            event_time=to_text(
                start_ms + 1000 * sequence + random.choice([0, 0, 0, -_HOUR_MS, 10_000 * _HOUR_MS])
            ),
        )
        copies = random.choice([1, 1, 1, 2, 3])
        sent += [(place + random.choice([0, 0, 0, 0, 1, 2, 4, 15]), measured) for _ in range(copies)]
    sent.sort(key=lambda one: one[0])
    return [measured for _, measured in sent]


def interleaved(random: Random, histories: Iterable[list[RackReading]]) -> list[RackReading]:
    """Return the readings of several racks mixed, each rack's in its own order."""
    left = [iter(history) for history in histories]
    mixed = []
    while left:
        history = random.choice(left)
        following = next(history, None)
        if following is None:
            left.remove(history)
        else:
            mixed.append(following)
    return mixed


def facts(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Return of an alert what the topic alone decides: not when it was found, nor the sentence."""
    return {name: value for name, value in alert.items() if name not in _JOBS_OWN_FIELDS}


def by_id(alerts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the facts of each alert once; copies of an alert must not contradict each other."""
    found: dict[str, dict[str, Any]] = {}
    for alert in alerts:
        first = found.setdefault(alert["alert_id"], facts(alert))
        assert first == facts(alert), f"two records of one alert differ: {first} and {facts(alert)}"
    return found
