"""Which record decided an output? The one from whose scheduled time its latency is counted.

An alert names its reading's time. A window's row says how many records are in it, and so the last of them, as a rack's
records lie in one partition in order; of the whole fleet that cannot be told. A joined row is due when the later of
click and impression is there.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

from events.times import to_ms, to_text
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
FLEET = "fleet"
FUTURE_MS = 5 * 60_000
"""Jobs by event time set aside what lies further ahead of its append time than this."""


def deciders(topic: str, row: Mapping[str, Any]) -> tuple[Key, ...]:
    """Return the keys of the records that an output needed: none where it cannot be told."""
    if topic == ALERTS.name:
        return (("reading", row["subject"], row["event_time"]),)
    if topic == RACK_TEMPERATURE.name and row["scope"] != FLEET:
        return (("nth", row["scope"], row["window_start"], row["reading_count"]),)
    if topic == AD_ATTRIBUTION.name and row["click_id"] is not None and row["impression_id"] is not None:
        return (("click", row["click_id"]), ("impression", row["impression_id"]))
    if topic == USER_TOTALS.name:
        return (("action", row["user_id"], row["event_time"]),)
    if topic == DISTINCT_EVENTS.name:
        return (("event", row["event_id"]),)
    return ()


class Deciders:
    """Finds the wanted records while the input topics go by, partition by partition in order."""

    def __init__(self, wanted: set[Key], windows: "Windows") -> None:
        self.found: dict[Key, tuple[int, int]] = {}
        """Scheduled and append time of each record found, in epoch milliseconds."""
        self._wanted = wanted
        self._kinds = {key[0] for key in wanted if isinstance(key, tuple)}
        self._windows = windows

    def take(self, topic: str, record: Any, scheduled_ms: int, append_ms: int) -> None:
        """Take the next record of a partition: one of the contract's input records."""
        for key in self._keys(topic, record, append_ms):
            if key in self._wanted:
                self.found.setdefault(key, (scheduled_ms, append_ms))

    def _keys(self, topic: str, record: Any, append_ms: int) -> list[Key]:
        keys: list[Key] = []
        if topic == RACK_READINGS.name:
            if "reading" in self._kinds:
                keys.append(("reading", record.rack_id, record.event_time))
            if "nth" in self._kinds:
                keys += self._windows.nth(record.rack_id, record.event_time, append_ms)
        elif topic == AD_CLICKS.name:
            keys.append(("click", record.click_id))
        elif topic == AD_IMPRESSIONS.name:
            keys.append(("impression", record.impression_id))
        elif topic == USER_ACTIONS.name and "action" in self._kinds:
            keys.append(("action", record.user_id, record.event_time))
        if "event" in self._kinds:
            keys.append(("event", record.event_id))
        return keys


class Windows:
    """Counts each rack's records in its windows: of a length, beginning every slide, in milliseconds."""

    def __init__(self, length_ms: int, slide_ms: int) -> None:
        self._length_ms, self._slide_ms = length_ms, slide_ms
        self._counts: Counter[tuple[str, int]] = Counter()
        self._texts: dict[int, str] = {}

    def nth(self, rack_id: str, event_time: str, append_ms: int) -> list[Key]:
        """Return the keys of a record: the how many-th it is of its rack in each of its windows."""
        event_ms = to_ms(event_time)
        if event_ms > append_ms + FUTURE_MS:
            return []
        keys: list[Key] = []
        start_ms = event_ms - event_ms % self._slide_ms
        while start_ms > event_ms - self._length_ms:
            self._counts[rack_id, start_ms] += 1
            keys.append(("nth", rack_id, self._text(start_ms), self._counts[rack_id, start_ms]))
            start_ms -= self._slide_ms
        return keys

    def _text(self, start_ms: int) -> str:
        if start_ms not in self._texts:
            self._texts[start_ms] = to_text(start_ms)
        return self._texts[start_ms]
