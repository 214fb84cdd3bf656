"""Compute the windows of `signal_statistics` that a list of readings gives."""

from collections import defaultdict
from collections.abc import Collection, Iterable

from events.constants import SIGNAL_WINDOW
from events.records import RackReading
from events.times import duration_ms, to_ms, to_text
from producer.expected.oracles.rows import Row, mark_indeterminate

WINDOW_MS = duration_ms(SIGNAL_WINDOW)


def signal_statistics(
    readings: Iterable[RackReading], too_late_ids: Collection[str] = ()
) -> list[Row]:
    """Return the rows of tumbling windows (1 min), per device type and per rack; copies count.

    `too_late_ids` has the ids of readings that may count or not; their rows are indeterminate.
    """
    strengths: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    indeterminate: set[tuple[int, str, str]] = set()
    for reading in readings:
        start_ms = to_ms(reading.event_time) // WINDOW_MS * WINDOW_MS
        for key in (
            (start_ms, "device_type", reading.device_type),
            (start_ms, "rack_id", reading.rack_id),
        ):
            strengths[key].append(reading.signal_strength)
            if reading.event_id in too_late_ids:
                indeterminate.add(key)
    rows = []
    for key, measured in sorted(strengths.items()):
        start_ms, group, name = key
        row = {
            "window_start": to_text(start_ms),
            "window_end": to_text(start_ms + WINDOW_MS),
            "device_type": None,
            "rack_id": None,
            "reading_count": len(measured),
            "signal_strength_min": min(measured),
            "signal_strength_max": max(measured),
            "signal_strength_avg": sum(measured) / len(measured),
        }
        rows.append(mark_indeterminate(row | {group: name}, key in indeterminate))
    return rows
