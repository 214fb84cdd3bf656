"""What the database says of incidents, read while an alerting process may write to it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from alerting import book, tables
from alerting.life import Life, Status, status
from alerting.notices import Notice
from events.cli import PersonError
from events.records import Alert, Instant
from events.times import to_text


class Incident(Struct, frozen=True):
    """One incident as an operator sees it. `repeats` are alerts that came again and were not logged again.

    `inhibited`: an outage of the site holds its notices back. `flapping`: it is told of as flapping.
    """

    alert_id: str
    status: Status
    severity: str
    rule: str
    subject: str
    site_id: str
    start_time: Instant
    end_time: Instant | None
    repeats: int
    acknowledged_by: str | None
    silenced_until: Instant | None
    inhibited: bool
    flapping: bool
    summary: str


class Silence(Struct, frozen=True):
    """A silence that has not ended."""

    rule: str
    subject: str
    until: Instant
    by: str


class Sent(Struct, frozen=True):
    """A notice that told of an incident: when, as what, and what became of it on each route."""

    notice_id: str
    made_time: Instant
    kind: str
    routes: dict[str, str]


class Story(Struct, frozen=True):
    """All that is known of an incident; the alerts are as they came, with their evidence."""

    incident: Incident
    alerts: list[Alert]
    notices: list[Sent]


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database only to read; raise `PersonError` when it is not one of this version."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            if tables.version(db) != tables.FORMAT:
                raise PersonError(
                    f"{path} is no database of this version of alerting: check --database, and let "
                    "`python -m alerting run` begin or upgrade it."
                )
            db.execute("BEGIN")  # all that is read is of one moment
            yield db
    except sqlite3.Error as error:
        raise PersonError(
            f"{path} cannot be read as alerting's database ({error}): check --database, "
            "or start `python -m alerting run`."
        ) from None


def incidents(
    db: sqlite3.Connection,
    now_ms: int,
    *,
    only_open: bool = False,
    rule: str | None = None,
    subject: str | None = None,
    limit: int = -1,
) -> list[Incident]:
    """Return incidents, the newest first; with `limit` at most so many."""
    rows = db.execute(
        f"{_SELECT} WHERE (NOT ? OR end_time IS NULL) AND (? IS NULL OR rule = ?)"
        " AND (? IS NULL OR ? IN (subject, site_id)) ORDER BY start_time DESC, incidents.rowid DESC LIMIT ?",
        (only_open, rule, rule, subject, subject, limit),
    )
    return [_incident(db, row, now_ms) for row in rows.fetchall()]


def find(db: sqlite3.Connection, beginning: str, now_ms: int) -> Incident:
    """Return the incident whose ID begins so; raise `PersonError` when there is none or more than one."""
    rows = db.execute(
        f"{_SELECT} WHERE substr(alert_id, 1, ?) = ? LIMIT 2", (len(beginning), beginning)
    ).fetchall()
    if not beginning or not rows:
        raise PersonError(
            f"no alert has the ID {beginning!r}: `python -m alerting list` shows those that fire."
        )
    if len(rows) > 1:
        raise PersonError(f"the IDs of several alerts begin with {beginning!r}: give more of it.")
    return _incident(db, rows[0], now_ms)


def silences(db: sqlite3.Connection, now_ms: int) -> list[Silence]:
    """Return the silences that have not ended, the next to end first."""
    return [
        Silence(rule, subject, to_text(until_ms), by)
        for rule, subject, until_ms, by in book.silences_at(db, now_ms)
    ]


def story(db: sqlite3.Connection, beginning: str, now_ms: int) -> Story:
    """Return all that is known of the incident whose ID begins so."""
    incident = find(db, beginning, now_ms)
    rows = db.execute("SELECT alert FROM alerts WHERE incident = ? ORDER BY rowid", (incident.alert_id,))
    alerts = [msgspec.json.decode(text, type=Alert) for (text,) in rows]
    return Story(incident, alerts, _notices_of(db, incident))


def life_now(db: sqlite3.Connection, incident: Incident) -> Life | None:
    """Return the life that an incident is the last of, None when another came after it."""
    life = book.life_of(db, incident.rule, incident.subject)
    return life if life is not None and life.alert_id == incident.alert_id else None


def _notices_of(db: sqlite3.Connection, incident: Incident) -> list[Sent]:
    found = []
    rows = db.execute("SELECT notice FROM notices WHERE site_id = ? ORDER BY rowid", (incident.site_id,))
    for (text,) in rows:
        notice = msgspec.json.decode(text, type=Notice)
        found += [
            Sent(notice.notice_id, notice.made_time, item.kind, _outcomes(db, notice.notice_id))
            for item in notice.items
            if item.alert_id == incident.alert_id
        ]
    return found


def _outcomes(db: sqlite3.Connection, notice_id: str) -> dict[str, str]:
    rows = db.execute(
        "SELECT route, coalesce(outcome, 'waits, ' || tries || ' tries' || coalesce(': ' || error, ''))"
        " FROM outbox WHERE notice_id = ?",
        (notice_id,),
    )
    return dict(rows.fetchall())


_SELECT = (
    "SELECT alert_id, rule, subject, site_id, severity, start_time, end_time, summary,"
    " (SELECT coalesce(sum(repeats), 0) FROM alerts WHERE incident = incidents.alert_id) FROM incidents"
)


def _acknowledged_once(db: sqlite3.Connection, row: tuple[Any, ...]) -> str | None:
    """Return who acknowledged an incident that has come to its end, None for one that fires."""
    alert_id, rule, subject, *_, end_time, _summary, _repeats = row
    named = [ack.by for ack in book.acks_of(db, rule, subject) if ack.alert_id == alert_id]
    return named[-1] if named and end_time is not None else None


def _incident(db: sqlite3.Connection, row: tuple[Any, ...], now_ms: int) -> Incident:
    alert_id, rule, subject, site_id, severity, start_time, end_time, summary, repeats = row
    life = book.life_of(db, rule, subject)
    is_last = life is not None and life.alert_id == alert_id
    [(_, hold)] = book.with_holds(db, [life], now_ms) if life and is_last else [(None, None)]
    return Incident(
        alert_id=alert_id,
        status=status(life, hold) if life and hold else Status.RESOLVED,
        severity=life.severity if life and is_last and life.firing else severity,
        rule=rule,
        subject=subject,
        site_id=site_id,
        start_time=start_time,
        end_time=end_time,
        repeats=repeats,
        acknowledged_by=hold.ack.by if hold and hold.ack else _acknowledged_once(db, row),
        silenced_until=to_text(hold.silenced_until_ms) if hold and hold.silenced_until_ms else None,
        inhibited=hold is not None and hold.inhibited,
        flapping=bool(life and is_last and life.told and life.told.flapping),
        summary=summary,
    )
