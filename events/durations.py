"""Parse and format durations such as `90`, `30s`, `5m`, `1h30m` and `2d`."""

import re

import typer

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_PATTERN = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
MAX_MS = 3650 * UNITS_MS["d"]


def to_duration_ms(text: str) -> int:
    """Parse a duration into milliseconds; raise `ValueError` if it is invalid.

    A number without a unit is in seconds.
    """
    found = _PATTERN.fullmatch(text.strip())
    if not found or not any(found.groups()):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m, 1h30m or 2d")
    parts = zip(UNITS_MS.values(), found.groups(), strict=True)
    duration_ms = sum(unit * float(number) for unit, number in parts if number)
    if duration_ms > MAX_MS:  # infinite, if the text has hundreds of digits
        raise ValueError(f"{text!r} is longer than ten years")
    return round(duration_ms)


def duration_option(text: str) -> int:
    """Parse an option's duration into milliseconds; report invalid text as wrong usage."""
    try:
        return to_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def to_duration_text(duration_ms: int) -> str:
    """Format a duration in its two largest units, rounded down: `2h05m`, `12s`."""
    rest_ms = max(duration_ms, 0)
    parts: list[str] = []
    for unit, unit_ms in UNITS_MS.items():
        count, rest_ms = divmod(rest_ms, unit_ms)
        if count or parts or unit == "s":
            parts.append(f"{count:02d}{unit}" if parts else f"{count}{unit}")
    return "".join(parts[:2])
