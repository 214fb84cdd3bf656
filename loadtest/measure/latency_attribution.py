"""Find which records triggered an output, and when they were scheduled.

An alert names its reading's time. A window's row says how many records it counts, which tells the
last of them, because a rack's records are in one partition in order; for the whole fleet this is
unknown. A joined row is triggered by the later of click and impression.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from events.constants import FLEET_SCOPE, FUTURE_TOLERANCE
from events.times import duration_ms, to_ms, to_text
from events.topics import (
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERTS,
    DISTINCT_EVENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    USER_ACTIONS,
    USER_TOTALS,
)

Key = Hashable
FUTURE_MS = duration_ms(FUTURE_TOLERANCE)


def trigger_keys(topic: str, row: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return the keys of the records that triggered an output; none where they are unknown."""
    if topic == ALERTS.name:
        return (("reading", row["subject"], row["event_time"]),)
    if topic == RACK_TEMPERATURE.name and row["scope"] != FLEET_SCOPE:
        return (("nth", row["scope"], row["window_start"], row["reading_count"]),)
    if (
        topic == AD_ATTRIBUTION.name
        and row["click_id"] is not None
        and row["impression_id"] is not None
    ):
        return (("click", row["click_id"]), ("impression", row["impression_id"]))
    if topic == USER_TOTALS.name:
        return (("action", row["user_id"], row["event_time"]),)
    if topic == DISTINCT_EVENTS.name:
        return (("event", row["event_id"]),)
    return ()


class TriggerRecords:
    """Finds the times of triggering records while the input topics are read in order."""

    def __init__(self, wanted: set[Key], windows: "WindowCounter") -> None:
        self.times: dict[Key, tuple[int, int]] = {}
        """Scheduled and append time of each record found, in epoch milliseconds."""
        self._wanted = wanted
        self._kinds = {key[0] for key in wanted if isinstance(key, tuple)}
        self._windows = windows

    def add(self, topic: str, record: Any, scheduled_ms: int, append_ms: int) -> None:
        """Add the next record of a partition: one of the contract's input records."""
        for key in self._keys(topic, record, append_ms):
            if key in self._wanted:
                self.times.setdefault(key, (scheduled_ms, append_ms))

    def _keys(self, topic: str, record: Any, append_ms: int) -> list[Key]:
        keys: list[Key] = []
        if topic == RACK_READINGS.name:
            if "reading" in self._kinds:
                keys.append(("reading", record.rack_id, record.event_time))
            if "nth" in self._kinds:
                keys += self._windows.keys_of(record.rack_id, record.event_time, append_ms)
        elif topic == AD_CLICKS.name:
            keys.append(("click", record.click_id))
        elif topic == AD_IMPRESSIONS.name:
            keys.append(("impression", record.impression_id))
        elif topic == USER_ACTIONS.name and "action" in self._kinds:
            keys.append(("action", record.user_id, record.event_time))
        if "event" in self._kinds:
            keys.append(("event", record.event_id))
        return keys


class WindowCounter:
    """Counts each rack's records in sliding windows; length and slide are in milliseconds."""

    def __init__(self, length_ms: int, slide_ms: int) -> None:
        self._length_ms, self._slide_ms = length_ms, slide_ms
        self._counts: Counter[tuple[str, str]] = Counter()

    def keys_of(self, rack_id: str, event_time: str, append_ms: int) -> list[Key]:
        """Count a record, and return its position in each of its rack's windows as keys."""
        event_ms, starts = _windows_at(event_time, self._length_ms, self._slide_ms)
        if event_ms > append_ms + FUTURE_MS:
            return []
        keys: list[Key] = []
        for start in starts:
            self._counts[rack_id, start] += 1
            keys.append(("nth", rack_id, start, self._counts[rack_id, start]))
        return keys


@lru_cache(maxsize=10_000)  # at high rates many racks have a reading with the same time
def _windows_at(event_time: str, length_ms: int, slide_ms: int) -> tuple[int, list[str]]:
    """Return a time in epoch ms, and the starts of the sliding windows that contain it."""
    event_ms = to_ms(event_time)
    last_ms = event_ms - event_ms % slide_ms
    starts = range(last_ms, event_ms - length_ms, -slide_ms)
    return event_ms, [to_text(start_ms) for start_ms in starts]
