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
        # Otherwise events lie hours before the moment at which they are sent.
        self._live = settings.time_scale == 1 and not settings.flush
        self._watermark_ms = interval_ms(option(settings, "watermark", "10 minutes"))

    def closes(self, topic: str) -> bool:
        """Tell whether a topic's rows are written when time has closed them."""
        return topic == USER_SESSIONS.name or (
            self._append and topic in (RACK_TEMPERATURE.name, ACTION_COUNTS.name)
        )

    def due_ms(self, topic: str, row: Mapping[str, Any]) -> int | None:
        """Return when a row was due, in epoch milliseconds; None where it closes nothing, or event time is not ours."""
        if not self._live or not self.closes(topic):
            return None
        end = row["session_end"] if topic == USER_SESSIONS.name else row["window_end"]
        return to_ms(end) + self._watermark_ms


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
