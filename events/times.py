"""Moments as epoch milliseconds and as the contract's text."""

import time
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_ms() -> int:
    """Return the wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def to_text(epoch_ms: int) -> str:
    """Return `2026-11-21T06:26:00.123Z` for epoch milliseconds."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, UTC)
    return f"{moment.replace(tzinfo=None).isoformat()}.{epoch_ms % 1000:03d}Z"


def to_ms(text: str) -> int:
    """Return epoch milliseconds for the contract's text; raise `ValueError` when it is not in UTC with `Z`."""
    if not text.endswith("Z"):
        raise ValueError(f"{text!r} is not a time in UTC ending in Z, such as 2026-11-21T06:26:00.123Z")
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)
