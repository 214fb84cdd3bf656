"""Convert epoch milliseconds to the contract's text and back, durations to Spark's intervals."""

import re
import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTERVAL_UNITS = (
    (timedelta(hours=1), "hour"),
    (timedelta(minutes=1), "minute"),
    (timedelta(seconds=1), "second"),
)
_UNITS_MS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def to_text(epoch_ms: int) -> str:
    """Return `2026-11-21T06:26:00.123Z` for epoch milliseconds."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    return f"{moment.replace(tzinfo=None).isoformat()}.{epoch_ms % 1000:03d}Z"


def to_ms(text: str) -> int:
    """Return epoch milliseconds for the contract's text; raise `ValueError` without UTC's `Z`."""
    if not text.endswith("Z"):
        raise ValueError(
            f"{text!r} is not a time in UTC ending in Z, such as 2026-11-21T06:26:00.123Z"
        )
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


def duration_ms(duration: timedelta) -> int:
    """Return the whole milliseconds of a duration."""
    return duration // timedelta(milliseconds=1)


def to_interval(duration: timedelta) -> str:
    """Return a duration as Spark reads it, in its largest whole unit: `10 minutes`, `1 hour`."""
    for unit, name in _INTERVAL_UNITS:
        count, rest = divmod(duration, unit)
        if count and not rest:
            return f"{count} {name}" if count == 1 else f"{count} {name}s"
    return f"{duration_ms(duration)} milliseconds"


def interval_ms(text: str) -> int:
    """Return a Spark interval such as `10 minutes` in ms; raise `ValueError` for another form.

    An interval may have several parts, as `1 hour 30 minutes` has.
    """
    words = text.lower().split()
    counts, units = words[::2], [unit.removesuffix("s") for unit in words[1::2]]
    if (
        not units
        or len(counts) != len(units)
        or not all(re.fullmatch("[0-9]+", count) for count in counts)
        or not _UNITS_MS.keys() >= set(units)
    ):
        raise ValueError(f"{text!r} is not of the form '10 minutes'")
    return sum(int(count) * _UNITS_MS[unit] for count, unit in zip(counts, units, strict=True))
