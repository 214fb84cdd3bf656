"""Store which incidents have changed since they were published to the topic `incidents`.

A change is marked in the transaction that makes it, so a crash loses no mark. The record is made
when it is published, from what the database holds then. So several changes become one record, and
however long the broker is away, the outbox has one row per rule and subject.
"""

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from alerting.incidents import incident_view, repository
from alerting.incidents.state import IncidentState
from events.constants import RESOLVED_INCIDENT_RETENTION
from events.records import Incident, encode
from events.times import duration_ms, to_ms

RETENTION_MS = duration_ms(RESOLVED_INCIDENT_RETENTION)
Key = tuple[str, str]
"""A rule and a subject."""


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """A record to publish.

    - `value`: None removes the key from the topic.
    - `next_change_ms`: when the record changes by the clock alone, or None.
    """

    rule: str
    subject: str
    revision: int
    value: bytes | None
    next_change_ms: int | None

    @property
    def key(self) -> bytes:
        """The record's key in the topic."""
        return f"{self.rule}|{self.subject}".encode()


def unpublished(db: sqlite3.Connection, now_ms: int, limit: int) -> list[OutboxRecord]:
    """Return records to publish, at most `limit`; the caller's transaction makes them consistent.

    They are those of incidents that have changed, and of those that the clock changes: a silence
    ends, or an incident was resolved a day ago.
    """
    rows = db.execute(
        "SELECT rule, subject, revision FROM incident_outbox WHERE published_revision < revision"
        " UNION SELECT rule, subject, revision FROM incident_outbox WHERE next_change_ms <= ?"
        " LIMIT ?",
        (now_ms, limit),
    ).fetchall()
    states = [repository.load_incident(db, rule, subject) for rule, subject, _ in rows]
    present = [state for state in states if state is not None and not _is_removed(state, now_ms)]
    incidents = incident_view.read_last_incidents(db, present, now_ms)
    found = {
        (state.rule, state.subject): _record(state, incidents[state.alert_id]) for state in present
    }
    return [
        OutboxRecord(rule, subject, revision, *found.get((rule, subject), (None, None)))
        for rule, subject, revision in rows
    ]


def record_published(db: sqlite3.Connection, records: Iterable[OutboxRecord]) -> None:
    """Store that the broker has acknowledged these records."""
    db.executemany(
        "UPDATE incident_outbox SET published_revision = ?, next_change_ms = ?"
        " WHERE rule = ? AND subject = ?",
        [
            (record.revision, record.next_change_ms, record.rule, record.subject)
            for record in records
        ],
    )


def is_topic_known(db: sqlite3.Connection, topic_id: str) -> bool:
    """Tell whether this is the topic that `published_revision` is about."""
    query = "SELECT 1 FROM topics WHERE source = 'incidents' AND topic_id = ?"
    return db.execute(query, (topic_id,)).fetchone() is not None


def begin_topic(
    db: sqlite3.Connection, topic: str, topic_id: str, present: Collection[Key]
) -> None:
    """Mark everything for a topic that is not known; call it inside a transaction.

    `present` are the keys that another database has left in the topic. Those that this one does not
    know are removed from it.
    """
    db.execute("INSERT OR REPLACE INTO topics VALUES ('incidents', ?, ?)", (topic, topic_id))
    db.execute("UPDATE incident_outbox SET revision = revision + 1")
    db.executemany(
        "INSERT INTO incident_outbox (rule, subject) VALUES (?, ?) ON CONFLICT DO NOTHING", present
    )


def _is_removed(state: IncidentState, now_ms: int) -> bool:
    return not state.firing and _removal_ms(state) <= now_ms


def _removal_ms(resolved: IncidentState) -> int:
    return resolved.change_times_ms[-1] + RETENTION_MS


def _record(state: IncidentState, incident: Incident) -> tuple[bytes, int | None]:
    """Return the value of a record, and when the clock changes it."""
    if not state.firing:
        next_change_ms: int | None = _removal_ms(state)
    elif incident.silenced_until is not None:
        next_change_ms = to_ms(incident.silenced_until)
    else:
        next_change_ms = None
    return encode(incident), next_change_ms
