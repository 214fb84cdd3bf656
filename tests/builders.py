"""Build events and racks: sensible defaults, and every field as a keyword."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from events.records import (
    AdClick,
    AdImpression,
    Alert,
    AlertCommand,
    Incident,
    InventoryRack,
    RackReading,
    UserAction,
)
from events.rules import Overheating
from events.times import to_text

T0 = 1_795_000_000_000
"""2026-11-18T11:06:40.000Z, the start of a window of 5 seconds."""
START = to_text(T0)


def rack(rack_id: str = "rack-0001", **changes: Any) -> InventoryRack:
    """Return a rack of the inventory."""
    fields: dict[str, Any] = {
        "rack_id": rack_id,
        "site_id": "site-a",
        "device_type": "gpu-server",
        "threshold_c": 90.0,
        "readings_per_second": 4.0,
    }
    return InventoryRack(**fields | changes)


def racks(rack_ids: Iterable[str], threshold_c: float) -> list[InventoryRack]:
    """Return racks with one threshold."""
    return [rack(rack_id, threshold_c=threshold_c) for rack_id in rack_ids]


def rules_by_threshold(thresholds: Mapping[str, float]) -> Callable[[str], Overheating]:
    """Return the overheating rule of each rack; it is the contract's except for the threshold."""
    return lambda rack_id: Overheating(threshold_c=thresholds.get(rack_id))


def reading(
    sequence: int = 1,
    temperature_c: float = 70.0,
    rack: str = "rack-0001",
    *,
    at_s: float | None = None,
    **changes: Any,
) -> RackReading:
    """Return a rack's reading; its event time is `at_s` seconds after `T0`, or its sequence."""
    after_s = sequence if at_s is None else at_s
    fields: dict[str, Any] = {
        "event_id": f"{rack}/{sequence}",
        "event_time": changes.get("event_time") or to_text(T0 + round(1000 * after_s)),
        "rack_id": rack,
        "sequence": sequence,
        "site_id": "site-a",
        "device_type": "gpu-server",
        "temperature_c": temperature_c,
        "signal_strength": 0.9,
    }
    return RackReading(**fields | changes)


def impression(impression_id: str = "i", **changes: Any) -> AdImpression:
    """Return an ad that was shown."""
    fields: dict[str, Any] = {
        "event_id": f"shown {impression_id}",
        "event_time": START,
        "impression_id": impression_id,
        "ad_id": "ad",
        "user_id": "user",
        "page": "/",
    }
    return AdImpression(**fields | changes)


def click(click_id: str = "c", impression_id: str = "i", **changes: Any) -> AdClick:
    """Return a click on an ad that was shown."""
    fields: dict[str, Any] = {
        "event_id": f"clicked {click_id}",
        "event_time": START,
        "click_id": click_id,
        "impression_id": impression_id,
        "ad_id": "ad",
        "user_id": "user",
    }
    return AdClick(**fields | changes)


def action(event_id: str = "a", **changes: Any) -> UserAction:
    """Return a user's action; one with an amount is a purchase."""
    fields: dict[str, Any] = {
        "event_id": event_id,
        "event_time": START,
        "user_id": "user",
        "action": "purchase" if changes.get("amount") is not None else "view",
        "page": "/",
        "device": "phone",
    }
    return UserAction(**fields | changes)


def alert_value(number: int, **changes: object) -> bytes:
    """Return an alert as its topic holds it, or a malformed one; its id is made from the number.

    The digits of the id are the number's, reversed, so that ids differ in their first digits.
    """
    fields = {
        "alert_id": f"{number:032x}"[::-1],
        "rule": "rack-overheating",
        "subject": f"rack-{number % 10:04d}",
        "site_id": "site-1",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-21T06:26:00.123Z",
        "detected_time": "2026-11-21T06:26:00.523Z",
        "summary": f"Rack {number % 10} is too hot.",
        "evidence": [],
    }
    return msgspec.json.encode(fields | changes)


def number_of(alert_id: str) -> int:
    """Return the number that an alert's id was made from."""
    return int(alert_id[::-1], 16)


def new_alert(
    number: int, time_ms: int, subject: str, state: str, severity: str, **changes: Any
) -> Alert:
    """Return an alert decided and detected at a time."""
    time = to_text(time_ms)
    about = {"subject": subject, "state": state, "severity": severity}
    about |= {"event_time": time, "detected_time": time, "summary": f"{subject} is {state}."}
    return msgspec.json.decode(alert_value(number, **about | changes), type=Alert)


def incident(subject: str = "rack-0001", status: str = "firing", **changes: Any) -> Incident:
    """Return an incident as alerting publishes it."""
    fields: dict[str, Any] = {
        "alert_id": f"id of {subject}",
        "status": status,
        "severity": "error",
        "rule": "rack-overheating",
        "subject": subject,
        "site_id": "site-a",
        "start_time": START,
        "end_time": None,
        "repeats": 0,
        "acknowledged_by": None,
        "silenced_until": None,
        "inhibited": False,
        "flapping": False,
        "summary": f"{subject} is hot.",
        "last_alert_id": f"id of {subject}",
    }
    return msgspec.convert(fields | changes, Incident)


def new_command(
    number: int, time_ms: int, command: str, subject: str, **changes: Any
) -> AlertCommand:
    """Return an operator's command given at a time."""
    fields = {
        "command_id": f"command-{number}",
        "command": command,
        "rule": "rack-overheating",
        "subject": subject,
        "by": "ada",
        "event_time": to_text(time_ms),
    }
    return msgspec.convert(fields | changes, AlertCommand)
