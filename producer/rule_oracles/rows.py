"""Rows of alerts as the contract has them, without `detected_time` and `summary`, which are the job's own."""

from collections.abc import Sequence
from typing import Any

from events.records import RackReading
from producer.oracle import alert_id

Row = dict[str, Any]


def alert(
    rule: str,
    subject: str,
    site_id: str,
    state: str,
    severity: str,
    event_time: str,
    decider: str,
    evidence: Sequence[Row] = (),
) -> Row:
    """Return an alert; `event_time` is the contract's text, `severity` that of a `WARNING`: a `NORMAL` has `info`."""
    severity = severity if state == "WARNING" else "info"
    return {
        "alert_id": alert_id(rule, subject, state, severity, decider),
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


def in_order(reading: RackReading) -> tuple[int, str]:
    """Return what a rack's readings are ordered by."""
    return reading.sequence, reading.event_id


def milliseconds(seconds: float) -> int:
    """Return a rule's seconds as milliseconds, to the nearest."""
    return round(seconds * 1000)


def maybe(row: Row, in_doubt: bool) -> Row:
    """Return the row, marked where nothing is promised about it."""
    return {**row, "either": True} if in_doubt else row
