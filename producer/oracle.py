"""Which alerts and windows must come out of these readings? The contract's rules, in the most obvious way.

Slow on purpose and free of cleverness: it is what the Spark jobs are compared with, so it shares no code with
them.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import RackReading
from events.times import to_ms, to_text

CONSECUTIVE = 3
"""How many readings in a row make a rack overheat."""
WINDOW_MS = 10 * 60_000
SLIDE_MS = 5 * 60_000
FLEET = "fleet"
AHEAD_MS = 5 * 60_000
"""Jobs by event time set aside what lies further ahead of its append time than this."""


@dataclass(slots=True)
class _Rack:
    history: list[tuple[int, str, str, float]] = field(default_factory=list)
    """Every distinct reading so far as (sequence, event_id, event_time, temperature_c), sorted."""
    seen: set[str] = field(default_factory=set)
    state: str = "NORMAL"


def overheating_alerts(
    readings: Iterable[RackReading],
    thresholds: Mapping[str, float],
    severities: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the alerts of readings in the order in which the topic holds them, in that order.

    `thresholds` gives °C by rack; racks that it does not name have the contract's 100 °C. `severities` gives that
    of a rack's `WARNING`, by default `error`. An alert has the fields of the output but for `detected_time` and
    `summary`, which are the job's own.
    """
    racks: dict[str, _Rack] = defaultdict(_Rack)
    alerts = []
    for reading in readings:
        rack = racks[reading.rack_id]
        if reading.event_id in rack.seen:
            continue
        rack.seen.add(reading.event_id)
        insort(rack.history, (reading.sequence, reading.event_id, reading.event_time, reading.temperature_c))
        threshold = thresholds.get(reading.rack_id, DEFAULT_THRESHOLD_C)
        last = rack.history[-CONSECUTIVE:]
        hot = len(last) == CONSECUTIVE and all(temperature >= threshold for *_, temperature in last)
        state = "WARNING" if hot else "NORMAL"
        if state != rack.state:
            rack.state = state
            severity = (severities or {}).get(reading.rack_id, "error")
            alerts.append(_alert(reading, state, severity if state == "WARNING" else "info", last))
    return alerts


def alert_id(rule: str, subject: str, state: str, severity: str, decider: str) -> str:
    """Return the contract's identity of an alert."""
    return sha256(f"{rule}|{subject}|{state}|{severity}|{decider}".encode()).hexdigest()[:32]


def temperature_windows(readings: Iterable[RackReading]) -> list[dict[str, Any]]:
    """Return the rows of sliding windows (10 min every 5), fleet and each rack, each record counted."""
    temperatures: dict[tuple[str, int], list[float]] = defaultdict(list)
    for reading in readings:
        for start_ms in window_starts(to_ms(reading.event_time)):
            temperatures[FLEET, start_ms].append(reading.temperature_c)
            temperatures[reading.rack_id, start_ms].append(reading.temperature_c)
    return [
        {
            "scope": scope,
            "window_start": to_text(start_ms),
            "window_end": to_text(start_ms + WINDOW_MS),
            "reading_count": len(measured),
            "temperature_c_avg": sum(measured) / len(measured),
            "temperature_c_min": min(measured),
            "temperature_c_max": max(measured),
        }
        for (scope, start_ms), measured in sorted(temperatures.items())
    ]


def window_starts(event_ms: int) -> list[int]:
    """Return the starts of the windows that a moment lies in, in epoch milliseconds: start ≤ moment < end."""
    latest = event_ms - event_ms % SLIDE_MS
    return list(range(latest, event_ms - WINDOW_MS, -SLIDE_MS))


def _alert(
    decider: RackReading, state: str, severity: str, last: list[tuple[int, str, str, float]]
) -> dict[str, Any]:
    rule = "rack-overheating"
    return {
        "alert_id": alert_id(rule, decider.rack_id, state, severity, decider.event_id),
        "rule": rule,
        "subject": decider.rack_id,
        "site_id": decider.site_id,
        "state": state,
        "severity": severity,
        "event_time": decider.event_time,
        "evidence": [
            {
                "event_id": event_id,
                "sequence": sequence,
                "event_time": event_time,
                "temperature_c": temperature_c,
            }
            for sequence, event_id, event_time, temperature_c in last
        ],
    }
