"""When is a closed window due? At its end and the watermark's delay: what is later is the job's latency."""

import re
from collections.abc import Mapping
from typing import Any

from events.times import to_ms
from events.topics import ACTION_COUNTS, RACK_TEMPERATURE, USER_SESSIONS
from loadtest.plan import Settings

_UNITS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


class Closing:
    """When the windows and sessions of a point's jobs are due, by its options."""

    def __init__(self, settings: Settings) -> None:
        self._append = option(settings, "output-mode", "update") == "append"
        self._watermark_ms = interval_ms(option(settings, "watermark", "10 minutes"))

    def due_ms(self, topic: str, row: Mapping[str, Any]) -> int | None:
        """Return when a row was due, in epoch milliseconds of event time; None where it closes nothing."""
        if topic == USER_SESSIONS.name:
            return to_ms(row["session_end"]) + self._watermark_ms
        if self._append and topic in (RACK_TEMPERATURE.name, ACTION_COUNTS.name):
            return to_ms(row["window_end"]) + self._watermark_ms
        return None


def windows_of(settings: Settings) -> tuple[int, int]:
    """Return length and slide of `rack_temperature`'s windows, in milliseconds."""
    length = option(settings, "window", "10 minutes")
    return interval_ms(length), interval_ms(option(settings, "slide", "5 minutes"))


def option(settings: Settings, name: str, default: str) -> str:
    """Return what the jobs' options say of `--name=`."""
    for text in settings.options:
        if text.startswith(f"--{name}="):
            return text.partition("=")[2]
    return default


def interval_ms(text: str) -> int:
    """Return a Spark interval such as `10 minutes` in milliseconds; raise `ValueError` for another form."""
    found = re.fullmatch(r"\s*(\d+)\s+([a-z]+?)s?\s*", text)
    if found is None or found.group(2) not in _UNITS:
        raise ValueError(f"{text!r} is not of the form '10 minutes'")
    return int(found.group(1)) * _UNITS[found.group(2)]
