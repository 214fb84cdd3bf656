"""Summarize alerts of the rules in three words each."""

from typing import Any

from events.times import to_ms
from tests.builders import T0


def summarize(alerts: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return each alert's state (with `?` if indeterminate), severity and seconds after `T0`."""
    return [
        (row["state"] + "?" * bool(row.get("either")), row["severity"], _after(row["event_time"]))
        for row in alerts
    ]


def _after(text: str) -> str:
    return f"{(to_ms(text) - T0) / 1000:g}"
