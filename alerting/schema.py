"""Define the tables of alerting's database, and the number of their format."""

import sqlite3
from pathlib import Path

from events.cli import UserFacingError

FORMAT = 4
"""The format of the tables, kept in SQLite's `user_version`.

Raise it with every change to the tables or to what they hold. An index needs no new format, nor
does a table that may be empty: `create_additions` adds them to the databases that lack them.
"""

TABLES = """
CREATE TABLE topics (
    source TEXT PRIMARY KEY,        -- 'alerts', 'commands' or 'incidents'
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL
) STRICT;
CREATE TABLE offsets (
    source TEXT NOT NULL,
    partition INTEGER NOT NULL,
    next_offset INTEGER NOT NULL,
    PRIMARY KEY (source, partition)
) STRICT;
CREATE TABLE malformed (
    source TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    error TEXT NOT NULL,
    seen_time TEXT NOT NULL,
    PRIMARY KEY (source, partition, offset)
) STRICT;
CREATE TABLE alerts (
    alert_id TEXT PRIMARY KEY,
    alert TEXT NOT NULL,            -- the record's JSON, including fields unknown to this version
    first_seen_time TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0,
    incident_id TEXT                -- the alert that opened the incident
) STRICT;
CREATE INDEX alerts_by_incident ON alerts (incident_id);
CREATE TABLE log_files (
    path TEXT PRIMARY KEY,
    inode INTEGER NOT NULL,
    length INTEGER NOT NULL
) STRICT;
CREATE TABLE incidents (
    alert_id TEXT PRIMARY KEY,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    site_id TEXT NOT NULL,
    severity TEXT NOT NULL,         -- the highest of the incident
    start_time TEXT NOT NULL,
    end_time TEXT,
    summary TEXT NOT NULL
) STRICT;
CREATE TABLE incident_states (      -- the last incident of each rule and subject
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    site_id TEXT NOT NULL,
    is_active INTEGER NOT NULL,
    state TEXT NOT NULL,            -- alerting.incidents.state.IncidentState as JSON
    PRIMARY KEY (rule, subject)
) STRICT;
CREATE INDEX active_incidents_by_site ON incident_states (site_id) WHERE is_active;
CREATE TABLE incident_outbox (      -- what the topic `incidents` has of each rule and subject
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,            -- grows with each change
    published_revision INTEGER NOT NULL DEFAULT 0,  -- the last that the broker acknowledged
    next_change_ms INTEGER,         -- when the published record changes by the clock alone
    PRIMARY KEY (rule, subject)
) STRICT;
CREATE INDEX unpublished_incidents ON incident_outbox (rule, subject)
    WHERE published_revision < revision;
CREATE INDEX incident_outbox_by_next_change ON incident_outbox (next_change_ms);
CREATE TABLE commands (
    number INTEGER PRIMARY KEY,     -- in the order in which they were read
    command_id TEXT NOT NULL UNIQUE,
    command TEXT NOT NULL,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    until_ms INTEGER,
    alert_id TEXT,
    severity TEXT,
    by TEXT NOT NULL,
    time_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX commands_by_subject ON commands (rule, subject);
CREATE TABLE site_schedule (
    site_id TEXT PRIMARY KEY,
    last_notice_ms INTEGER,
    next_check_ms INTEGER           -- when a notice may become due
) STRICT;
CREATE INDEX site_schedule_by_next_check ON site_schedule (next_check_ms);
CREATE TABLE notices (
    notice_id TEXT PRIMARY KEY,
    site_id TEXT NOT NULL,
    created_time TEXT NOT NULL,
    notice TEXT NOT NULL            -- alerting.notifications.notice.Notice as JSON
) STRICT;
CREATE INDEX notices_by_site ON notices (site_id);
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    notice_id TEXT NOT NULL REFERENCES notices (notice_id),
    failed_attempts INTEGER NOT NULL DEFAULT 0,
    error TEXT,                     -- of the last failed attempt
    outcome TEXT,                   -- null while the notice waits, then 'delivered' or 'dead'
    outcome_time TEXT
) STRICT;
CREATE INDEX waiting_notices ON outbox (channel, number) WHERE outcome IS NULL;
"""

ADDITIONS = """
CREATE INDEX IF NOT EXISTS open_incidents ON incidents (start_time) WHERE end_time IS NULL;
CREATE TABLE IF NOT EXISTS unmatched_ends ( -- the last NORMAL alert that found no open incident
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    partition INTEGER NOT NULL,
    append_ms INTEGER NOT NULL,
    event_time TEXT NOT NULL,
    PRIMARY KEY (rule, subject)
) STRICT;
"""


def is_empty(db: sqlite3.Connection) -> bool:
    """Tell whether a database has no tables yet."""
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise `UserFacingError` unless the database has the format of this version."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found == 0:
        raise UserFacingError(
            f"{path} is not a database of alerting: choose another with --database."
        )
    if found != FORMAT:
        raise UserFacingError(
            f"the database {path} has format {found}, but this version of alerting uses format "
            f"{FORMAT}: remove it to read all alerts again, or choose another with --database."
        )


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables of an empty database in one transaction."""
    db.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")


def create_additions(db: sqlite3.Connection) -> None:
    """Create what a database of this format lacks if an earlier version made it."""
    db.executescript(f"BEGIN; {ADDITIONS} COMMIT;")
