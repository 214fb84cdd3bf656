"""Build the incidents that operators see, and that the topic `incidents` holds."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from alerting.incidents import repository
from alerting.incidents.state import IncidentState, Suppression, incident_status
from events.records import Incident
from events.times import to_text

MAX_TEXT = 65_536
"""How many characters of a text are kept, so that every incident fits into a Kafka record."""


def read_incidents(
    db: sqlite3.Connection, now_ms: int, condition: str, parameters: Sequence[Any]
) -> list[Incident]:
    """Return the incidents that an SQL condition on the table `incidents` selects."""
    rows = db.execute(f"{_SELECT} {condition}", parameters).fetchall()
    states = [repository.load_incident(db, rule, subject) for _, rule, subject, *_ in rows]
    last = [state for state in states if state is not None]
    suppressions = {
        state.alert_id: (state, suppression)
        for state, suppression in repository.with_suppressions(db, last, now_ms)
    }
    return [_incident(db, row, *suppressions.get(row[0], (None, Suppression()))) for row in rows]


def read_last_incidents(
    db: sqlite3.Connection, states: Iterable[IncidentState], now_ms: int
) -> dict[str, Incident]:
    """Return the incidents that are in these states, by id.

    SQLite allows no more than 32,766 at once.
    """
    ids = [state.alert_id for state in states]
    condition = f"WHERE alert_id IN ({', '.join('?' * len(ids))})"
    return {each.alert_id: each for each in read_incidents(db, now_ms, condition, ids)}


_SELECT = (
    "SELECT alert_id, rule, subject, site_id, severity, start_time, end_time, summary,"
    " (SELECT coalesce(sum(repeats), 0) FROM alerts WHERE incident_id = incidents.alert_id),"
    " (SELECT alerts.alert_id FROM alerts WHERE incident_id = incidents.alert_id"
    " ORDER BY alerts.rowid DESC LIMIT 1)"
    " FROM incidents"
)


def _incident(
    db: sqlite3.Connection,
    row: tuple[Any, ...],
    state: IncidentState | None,
    suppression: Suppression,
) -> Incident:
    """Return an incident; `state` is None where a later incident has replaced it."""
    (
        alert_id,
        rule,
        subject,
        site_id,
        highest_severity,
        start_time,
        end_time,
        summary,
        repeats,
        last_alert_id,
    ) = row
    is_open = state is not None and state.firing
    if is_open:
        acknowledged_by = suppression.ack.by if suppression.ack else None
    else:
        acknowledged_by = _last_acknowledged_by(db, alert_id, rule, subject)
        suppression = Suppression()  # there is nothing to suppress any more
    return Incident(
        alert_id=alert_id,
        status=incident_status(state, suppression) if state else "resolved",
        severity=state.severity if state and is_open else highest_severity,
        rule=rule,
        subject=subject,
        site_id=site_id,
        start_time=start_time,
        end_time=end_time,
        repeats=repeats,
        acknowledged_by=None if acknowledged_by is None else acknowledged_by[:MAX_TEXT],
        silenced_until=(
            to_text(suppression.silenced_until_ms) if suppression.silenced_until_ms else None
        ),
        inhibited=suppression.inhibited,
        flapping=bool(state and state.last_notification and state.last_notification.flapping),
        summary=summary[:MAX_TEXT],
        last_alert_id=last_alert_id,
    )


def _last_acknowledged_by(
    db: sqlite3.Connection, alert_id: str, rule: str, subject: str
) -> str | None:
    """Return who acknowledged a resolved incident last."""
    names = [ack.by for ack in repository.acks_of(db, rule, subject) if ack.alert_id == alert_id]
    return names[-1] if names else None
