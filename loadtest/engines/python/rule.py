"""Define the overheating rule with its records and alerts, for the two engines in Python.

It imports nothing of the project, so that both can be compared with it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

RULE = "rack-overheating"
CONSECUTIVE = 3
DEFAULT_THRESHOLD_C = 100.0
CONDITIONS = {
    "WARNING": f"overheating: its last {CONSECUTIVE} readings are",
    "NORMAL": f"back to normal: its last {CONSECUTIVE} readings are no longer",
}

Id = Annotated[str, Meta(max_length=256)]
Instant = Annotated[
    str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z\Z")
]
StateReading = Sequence[Any]
"""A reading in state: sequence, event_id, event_time, temperature_c, and what an engine adds."""
_order = itemgetter(0, 1)
"""Readings are in order of sequence, then event_id."""


class Reading(Struct, gc=False):
    """A record of `rack-readings`; anything else is malformed."""

    event_id: Id
    event_time: Instant
    rack_id: Id
    sequence: int
    site_id: Id
    device_type: Id
    temperature_c: float
    signal_strength: float


class InventoryRack(Struct):
    """The fields of an inventory line that the rule needs."""

    rack_id: str
    threshold_c: float


class Evidence(Struct):
    """A reading that an alert is based on."""

    event_id: str
    sequence: int
    event_time: str
    temperature_c: float


class Alert(Struct):
    """A record of `alerts`."""

    alert_id: str
    rule: str
    subject: str
    site_id: str
    state: str
    severity: str
    event_time: str
    detected_time: str
    summary: str
    evidence: list[Evidence]


def add_reading(
    last: Sequence[StateReading], reading: StateReading, threshold_c: float
) -> tuple[Sequence[StateReading], bool | None]:
    """Return a rack's last three distinct readings after a new one, and the state if it changed.

    In: the last three by sequence before it. The state is True in `WARNING`, which needs three
    readings at or above the threshold, and False otherwise; None if it did not change.
    """
    if len(last) == CONSECUTIVE and _order(reading) <= _order(last[0]):
        return last, None  # older than the last three, or a copy of the oldest
    if any(reading[1] == other[1] for other in last):
        return last, None
    after = sorted([*last, reading], key=_order)[-CONSECUTIVE:]
    warning = is_warning(after, threshold_c)
    return after, warning if warning != is_warning(last, threshold_c) else None


def is_warning(last: Sequence[StateReading], threshold_c: float) -> bool:
    """Return whether a rack with these last readings is in `WARNING`."""
    return len(last) == CONSECUTIVE and all(reading[3] >= threshold_c for reading in last)


def alert_of(
    rack_id: str,
    site_id: str,
    trigger: StateReading,
    last: Sequence[StateReading],
    threshold_c: float,
    *,
    warning: bool,
) -> Alert:
    """Return the alert of a state change, which the newest record triggered."""
    _, event_id, event_time, *_ = trigger
    state, severity = ("WARNING", "error") if warning else ("NORMAL", "info")
    identity = f"{RULE}|{rack_id}|{state}|{severity}|{event_id}"
    latest_c = last[-1][3]
    return Alert(
        alert_id=sha256(identity.encode()).hexdigest()[:32],
        rule=RULE,
        subject=rack_id,
        site_id=site_id,
        state=state,
        severity=severity,
        event_time=to_milliseconds(event_time),
        detected_time=to_milliseconds(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"),
        summary=f"Rack {rack_id} is {CONDITIONS[state]} all at or above {threshold_c:.1f} °C,"
        f" the latest {latest_c:.1f} °C.",
        evidence=[
            Evidence(event_id, sequence, to_milliseconds(event_time), temperature_c)
            for sequence, event_id, event_time, temperature_c, *_ in last
        ],
    )


def to_milliseconds(instant: str) -> str:
    """Return a time of the contract with exactly milliseconds."""
    return f"{instant[:19]}.{instant[20:-1]:0<3.3}Z"


def read_thresholds(inventory: Path) -> dict[str, float]:
    """Return the threshold in °C by rack."""
    racks = msgspec.json.Decoder(InventoryRack).decode_lines(inventory.read_bytes())
    return {rack.rack_id: rack.threshold_c for rack in racks}
