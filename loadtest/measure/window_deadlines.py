"""Compute the deadlines of outputs that time triggers: closed windows, closed sessions, silences.

A closed window is due at its end plus the watermark's delay, a silence when it has lasted as long
as the rule says. What passes until a consumer has the output is the job's latency.
"""

from collections.abc import Mapping
from typing import Any

from events.catalog import SILENT_SENSOR
from events.constants import WATERMARK, WINDOW, WINDOW_SLIDE
from events.times import interval_ms, to_interval, to_ms
from events.topics import (
    ACTION_COUNTS,
    ALERTS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
)
from loadtest.plan import PointSettings

_WINDOW_TOPICS = {topic.name for topic in (RACK_TEMPERATURE, ACTION_COUNTS, SIGNAL_STATISTICS)}


class WindowDeadlines:
    """The deadlines of a point's time-triggered outputs, by its options."""

    def __init__(self, settings: PointSettings) -> None:
        self._append = option(settings, "output-mode", "update") == "append"
        # With a time scale or a flush, event time is not the clock's time.
        self._live = settings.time_scale == 1 and not settings.flush
        self._watermark_ms = interval_ms(option(settings, "watermark", to_interval(WATERMARK)))

    def emits_on_close(self, topic: str, row: Mapping[str, Any]) -> bool:
        """Return whether time triggered a row, not a record."""
        if topic == ALERTS.name:
            return bool(row["rule"] == SILENT_SENSOR and row["state"] == "WARNING")
        return topic == USER_SESSIONS.name or (self._append and topic in _WINDOW_TOPICS)

    def deadline_ms(self, topic: str, row: Mapping[str, Any]) -> int | None:
        """Return when a row was due, in epoch ms; None without a deadline on the clock."""
        if not self._live or not self.emits_on_close(topic, row):
            return None
        if topic == ALERTS.name:
            return to_ms(row["event_time"])
        end = row["session_end"] if topic == USER_SESSIONS.name else row["window_end"]
        return to_ms(end) + self._watermark_ms


def windows_of(settings: PointSettings) -> tuple[int, int]:
    """Return length and slide of `rack_temperature`'s windows, in milliseconds."""
    length = option(settings, "window", to_interval(WINDOW))
    return interval_ms(length), interval_ms(option(settings, "slide", to_interval(WINDOW_SLIDE)))


def option(settings: PointSettings, name: str, default: str) -> str:
    """Return the value of the jobs' option `--name=`."""
    for text in settings.options:
        if text.startswith(f"--{name}="):
            return text.partition("=")[2]
    return default
