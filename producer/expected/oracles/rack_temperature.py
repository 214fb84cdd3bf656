"""Compute the windows of `rack_temperature` that a list of readings gives."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from events.constants import FLEET_SCOPE, WINDOW, WINDOW_SLIDE
from events.records import RackReading
from events.times import duration_ms, to_ms, to_text

WINDOW_MS = duration_ms(WINDOW)
SLIDE_MS = duration_ms(WINDOW_SLIDE)


def temperature_windows(readings: Iterable[RackReading]) -> list[dict[str, Any]]:
    """Return the rows of sliding windows (10 min every 5), per rack and fleet; copies count."""
    temperatures: dict[tuple[str, int], list[float]] = defaultdict(list)
    for reading in readings:
        for start_ms in window_starts(to_ms(reading.event_time)):
            for scope in {FLEET_SCOPE, reading.rack_id}:
                temperatures[scope, start_ms].append(reading.temperature_c)
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
    """Return the starts of the windows that contain a moment, in epoch ms: start ≤ moment < end."""
    latest = event_ms - event_ms % SLIDE_MS
    return list(range(latest, event_ms - WINDOW_MS, -SLIDE_MS))
