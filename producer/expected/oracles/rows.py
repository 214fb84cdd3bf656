"""Build rows of expected output.

Alerts are as in the contract, except `detected_time` and `summary`, which the job alone decides.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from events.records import RackReading

Row = dict[str, Any]


def alert_id(rule: str, subject: str, state: str, severity: str, trigger_event_id: str) -> str:
    """Return the contract's identity of an alert."""
    return sha256(f"{rule}|{subject}|{state}|{severity}|{trigger_event_id}".encode()).hexdigest()[
        :32
    ]


def alert(
    rule: str,
    subject: str,
    site_id: str,
    state: str,
    severity: str,
    event_time: str,
    trigger_event_id: str,
    evidence: Sequence[Row] = (),
) -> Row:
    """Return an alert, with `event_time` as the contract's text.

    `severity` is that of a `WARNING`; a `NORMAL` has `info`.
    """
    severity = severity if state == "WARNING" else "info"
    return {
        "alert_id": alert_id(rule, subject, state, severity, trigger_event_id),
        "rule": rule,
        "subject": subject,
        "site_id": site_id,
        "state": state,
        "severity": severity,
        "event_time": event_time,
        "evidence": list(evidence),
    }


def evidence(reading: RackReading) -> Row:
    """Return a reading as evidence, its temperature in °C."""
    return {
        "event_id": reading.event_id,
        "sequence": reading.sequence,
        "event_time": reading.event_time,
        "temperature_c": reading.temperature_c,
    }


def sequence_key(reading: RackReading) -> tuple[int, str]:
    """Return the sort key of a rack's readings."""
    return reading.sequence, reading.event_id


def milliseconds(seconds: float) -> int:
    """Return a rule's seconds as whole milliseconds."""
    return round(seconds * 1000)


def mark_not_due(row: Row, end_ms: int, watermark_ms: int | None) -> Row:
    """Return the row, marked `not_due` if the watermark has not passed its end; None: it has."""
    is_due = watermark_ms is None or end_ms <= watermark_ms
    return row if is_due else {**row, "not_due": True}


def mark_indeterminate(row: Row, indeterminate: bool) -> Row:
    """Return the row, marked `either` if it is indeterminate."""
    return {**row, "either": True} if indeterminate else row
