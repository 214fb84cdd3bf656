"""How long, as people write it: `90`, `30s`, `5m`, `1h30m`, `2d`."""

import re

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
LONGEST_MS = 3650 * UNITS_MS["d"]


def to_duration_ms(text: str) -> int:
    """Return milliseconds for a duration, a number alone being seconds; raise `ValueError` for other text."""
    found = _FORM.fullmatch(text.strip())
    if not found or not any(found.groups()):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m, 1h30m or 2d")
    parts = zip(UNITS_MS.values(), found.groups(), strict=True)
    duration_ms = round(sum(unit * float(number) for unit, number in parts if number))
    if duration_ms > LONGEST_MS:
        raise ValueError(f"{text!r} is longer than ten years")
    return duration_ms


def to_duration_text(duration_ms: int) -> str:
    """Return a duration in its two largest units, rounded down: `2h05m`, `12s`."""
    left = max(duration_ms, 0)
    parts: list[str] = []
    for unit, size in UNITS_MS.items():
        count, left = divmod(left, size)
        if count or parts or unit == "s":
            parts.append(f"{count:02d}{unit}" if parts else f"{count}{unit}")
    return "".join(parts[:2])
