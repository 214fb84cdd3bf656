"""Compare the topic `incidents` with the incidents that follow from the topic of alerts."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import get_args

from demo.comparison import Comparison, Row, compare
from events.constants import RESOLVED_INCIDENT_RETENTION
from events.records import Severity
from events.times import duration_ms, to_ms

RETENTION_MS = duration_ms(RESOLVED_INCIDENT_RETENTION)
REMOVAL_TOLERANCE_MS = 60_000
"""An incident whose removal is due within this time may or may not be in the topic."""
_FIELDS = ("alert_id", "severity", "site_id", "start_time", "end_time", "summary", "last_alert_id")
"""What follows from the alerts alone."""
_FROM_CRITICAL = get_args(Severity)


def compare_incidents(alerts: Iterable[Row], actual: Iterable[Row], at_ms: int) -> Comparison:
    """Compare the last incident of each rule and subject.

    In: the alerts in the order of their topic, repeats included; the last record of each incident
    in its topic; when the topics were read, in epoch ms. Resolved incidents are removed after a
    day, and are indeterminate around that time.
    """
    of_incidents = _alerts_of_last_incidents(alerts)
    age_ms = {key: _since_resolved_ms(of_one, at_ms) for key, of_one in of_incidents.items()}
    either = {key for key, age in age_ms.items() if abs(age - RETENTION_MS) <= REMOVAL_TOLERANCE_MS}
    return compare(
        {
            key: _incident(of_one)
            for key, of_one in of_incidents.items()
            if age_ms[key] < RETENTION_MS and key not in either
        },
        {
            key: {**row, "is_open": row["status"] != "resolved"}
            for row in actual
            if (key := (row["rule"], row["subject"])) not in either
        },
        (*_FIELDS, "is_open"),
        "incident",
        len(either),
    )


def _alerts_of_last_incidents(alerts: Iterable[Row]) -> dict[tuple[str, str], Sequence[Row]]:
    """Return the alerts of the last incident of each rule and subject.

    A `WARNING` opens an incident and the next `NORMAL` resolves it (`docs/alerting.md`, States).
    """
    seen: set[str] = set()
    last: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for alert in alerts:
        if alert["alert_id"] in seen:
            continue
        seen.add(alert["alert_id"])
        of_one = last[alert["rule"], alert["subject"]]
        is_open = bool(of_one) and of_one[-1]["state"] == "WARNING"
        if not is_open and alert["state"] == "NORMAL":
            continue
        if not is_open:
            of_one.clear()
        of_one.append(alert)
    return {key: of_one for key, of_one in last.items() if of_one}


def _since_resolved_ms(of_one: Sequence[Row], at_ms: int) -> int:
    last = of_one[-1]
    return at_ms - to_ms(last["detected_time"]) if last["state"] == "NORMAL" else 0


def _incident(of_one: Sequence[Row]) -> Row:
    """Return the incident of these alerts; a resolved one has its highest severity."""
    first, last = of_one[0], of_one[-1]
    is_open = last["state"] == "WARNING"
    warnings = [alert for alert in of_one if alert["state"] == "WARNING"]
    severities = [alert["severity"] for alert in warnings]
    return {
        "alert_id": first["alert_id"],
        "severity": severities[-1] if is_open else min(severities, key=_FROM_CRITICAL.index),
        "site_id": first["site_id"],
        "start_time": first["event_time"],
        "end_time": None if is_open else last["event_time"],
        "summary": warnings[-1]["summary"],
        "last_alert_id": last["alert_id"],
        "is_open": is_open,
    }
