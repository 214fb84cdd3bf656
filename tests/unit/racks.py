"""Readings and racks written by hand, for the tests of the rules."""

from typing import Any

from events.records import InventoryRack, RackReading
from events.times import to_ms, to_text

T0 = 1_795_000_000_000
"""2026-11-18T11:06:40.000Z, the start of a window of 5 seconds."""


def reading(
    number: int,
    temperature_c: float = 70.0,
    signal_strength: float = 1.0,
    *,
    rack: str = "rack-0001",
    at_s: float | None = None,
    event_id: str = "",
) -> RackReading:
    """Return a rack's reading with a sequence number; its event time is so many seconds after `T0`, or `at_s`."""
    return RackReading(
        event_id=event_id or f"{rack}/{number}",
        event_time=to_text(T0 + round(1000 * (number if at_s is None else at_s))),
        rack_id=rack,
        sequence=number,
        site_id="site-a",
        device_type="gpu-server",
        temperature_c=temperature_c,
        signal_strength=signal_strength,
    )


def rack(rack_id: str, **changes: Any) -> InventoryRack:
    """Return a rack of the inventory."""
    row = {"site_id": "site-a", "device_type": "gpu-server", "threshold_c": 90.0, "readings_per_second": 4.0}
    return InventoryRack(**{"rack_id": rack_id, **row, **changes})


def told(alerts: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return state, severity and seconds after `T0` of each alert; nothing is promised about a state with `?`."""
    return [
        (row["state"] + "?" * bool(row.get("either")), row["severity"], _after(row["event_time"]))
        for row in alerts
    ]


def _after(text: str) -> str:
    return f"{(to_ms(text) - T0) / 1000:g}"
