"""Read incidents from the database while an alerting process may write to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from alerting import schema
from alerting.incidents import incident_view, repository
from alerting.incidents.state import IncidentState
from alerting.notifications.notice import Notice
from events.cli import UserFacingError
from events.records import Alert, Incident, Instant
from events.times import to_text

MAX_LIMIT = (1 << 63) - 1
"""SQLite's largest integer."""


class Silence(Struct, frozen=True):
    """A silence that has not ended."""

    rule: str
    subject: str
    until: Instant
    by: str


class IncidentNotice(Struct, frozen=True):
    """A notice about an incident, with its outcome on each channel."""

    notice_id: str
    created_time: Instant
    kind: str
    channels: dict[str, str]


class IncidentDetails(Struct, frozen=True):
    """An incident with its alerts, as they were received, and its notices."""

    incident: Incident
    alerts: list[Alert]
    notices: list[IncidentNotice]


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database read-only; raise `UserFacingError` if it is not of this version's format."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            if schema.is_empty(db):
                raise UserFacingError(
                    f"the database {path} is empty: start `python -m alerting run`, or check "
                    "--database."
                )
            schema.check_format(db, path)
            db.execute("BEGIN")  # all queries see the same snapshot
            yield db
    except sqlite3.Error as error:
        raise UserFacingError(
            f"the database {path} cannot be read ({error}): start `python -m alerting run`, or "
            "check --database."
        ) from None


def list_incidents(
    db: sqlite3.Connection,
    now_ms: int,
    *,
    only_open: bool = False,
    rule: str | None = None,
    subject: str | None = None,
    limit: int = -1,
) -> list[Incident]:
    """Return incidents, the newest first; `subject` is a rack or a site, `limit` -1 returns all."""
    # A partial index is used only where its own condition is in the query, not a parameter.
    which = "end_time IS NULL" if only_open else "TRUE"
    return incident_view.read_incidents(
        db,
        now_ms,
        f"WHERE {which} AND (? IS NULL OR rule = ?)"
        " AND (? IS NULL OR ? IN (subject, site_id))"
        " ORDER BY start_time DESC, incidents.rowid DESC LIMIT ?",
        (rule, rule, subject, subject, min(limit, MAX_LIMIT)),
    )


def find_incident(db: sqlite3.Connection, id_prefix: str, now_ms: int) -> Incident:
    """Return the incident of the alerts whose ids have a prefix.

    Raise `UserFacingError` unless they are of exactly one incident.
    """
    found = incident_view.read_incidents(
        db,
        now_ms,
        "WHERE alert_id IN (SELECT incident_id FROM alerts WHERE substr(alert_id, 1, ?) = ?)"
        " LIMIT 2",
        (len(id_prefix), id_prefix),
    )
    if not id_prefix or not found:
        raise UserFacingError(
            f"no incident has an alert with the ID {id_prefix!r}: `python -m alerting list` shows "
            "the open ones."
        )
    if len(found) > 1:
        raise UserFacingError(
            f"alerts of several incidents have IDs that begin with {id_prefix!r}: add digits."
        )
    return found[0]


def list_silences(db: sqlite3.Connection, now_ms: int) -> list[Silence]:
    """Return the silences that have not ended, the next to end first."""
    return [
        Silence(rule, subject, to_text(until_ms), by)
        for rule, subject, until_ms, by in repository.active_silences(db, now_ms)
    ]


def incident_details(db: sqlite3.Connection, id_prefix: str, now_ms: int) -> IncidentDetails:
    """Return the incident whose id has a prefix, with its alerts and notices."""
    incident = find_incident(db, id_prefix, now_ms)
    rows = db.execute(
        "SELECT alert FROM alerts WHERE incident_id = ? ORDER BY rowid", (incident.alert_id,)
    )
    alerts = [msgspec.json.decode(text, type=Alert) for (text,) in rows]
    return IncidentDetails(incident, alerts, _notices_of(db, incident))


def current_state(db: sqlite3.Connection, incident: Incident) -> IncidentState | None:
    """Return the state of an incident, or None if a later incident has replaced it."""
    state = repository.load_incident(db, incident.rule, incident.subject)
    return state if state is not None and state.alert_id == incident.alert_id else None


def _notices_of(db: sqlite3.Connection, incident: Incident) -> list[IncidentNotice]:
    found = []
    rows = db.execute(
        "SELECT notice FROM notices WHERE site_id = ? ORDER BY rowid", (incident.site_id,)
    )
    for (text,) in rows:
        notice = msgspec.json.decode(text, type=Notice)
        found += [
            IncidentNotice(
                notice.notice_id, notice.created_time, item.kind, _outcomes(db, notice.notice_id)
            )
            for item in notice.items
            if item.alert_id == incident.alert_id
        ]
    return found


def _outcomes(db: sqlite3.Connection, notice_id: str) -> dict[str, str]:
    rows = db.execute(
        "SELECT channel, coalesce(outcome, 'waiting, ' || failed_attempts || ' failed attempts'"
        " || coalesce(': ' || error, '')) FROM outbox WHERE notice_id = ?",
        (notice_id,),
    )
    return dict(rows.fetchall())
