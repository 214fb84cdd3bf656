"""Build readings as a topic may hold them: with gaps, copies, late arrivals and wrong clocks.

Also: compare alerts by the fields that the topic alone decides.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from events.records import RackReading
from events.times import to_text
from tests.builders import T0, reading

HOT, AT, BELOW, COLD = 104.5, 100.0, 99.99, 70.0
"""Temperatures around 100 °C, the threshold of a rack that no inventory names."""

_HOUR_MS = 3_600_000
_HOT_SPELL, _COLD_SPELL = [HOT, HOT, HOT, AT, AT, AT, BELOW], [COLD, COLD, BELOW, HOT]
_VARYING_FIELDS = {"detected_time", "summary"}


def deliveries(
    random: Random, rack: str = "rack-0001", readings: int = 12, start_ms: int = T0
) -> list[RackReading]:
    """Return one rack's readings in the order of a topic, each one to three times.

    Most readings are hot, so that the state changes often. Ids do not sort by `sequence`, and some
    clocks are wrong.
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
        sent += [
            (place + random.choice([0, 0, 0, 0, 1, 2, 4, 15]), measured) for _ in range(copies)
        ]
    sent.sort(key=lambda one: one[0])
    return [measured for _, measured in sent]


def interleaved(random: Random, histories: Iterable[list[RackReading]]) -> list[RackReading]:
    """Return the readings of several racks mixed, with each rack's own order kept."""
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


def stable_fields(alert: Mapping[str, Any]) -> dict[str, Any]:
    """Return an alert without `detected_time` and `summary`, which the topic does not decide."""
    return {name: value for name, value in alert.items() if name not in _VARYING_FIELDS}


def alerts_by_id(alerts: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each alert's stable fields by its id; copies of an alert must be equal."""
    found: dict[str, dict[str, Any]] = {}
    for alert in alerts:
        fields = stable_fields(alert)
        first = found.setdefault(alert["alert_id"], fields)
        assert first == fields, f"two records of one alert differ: {first} and {fields}"
    return found
