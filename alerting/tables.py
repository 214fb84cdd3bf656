"""The tables of alerting's database, and how a database of an earlier version becomes one of this."""

import sqlite3

FORMAT = 2
"""The version of the tables, in SQLite's `user_version`."""

SINCE_1 = """
CREATE TABLE alerts (
    alert_id TEXT PRIMARY KEY,
    alert TEXT NOT NULL,            -- the record's JSON, with any field that this version does not know
    first_seen_time TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE log_files (path TEXT PRIMARY KEY, inode INTEGER NOT NULL, length INTEGER NOT NULL) STRICT;
"""

PER_SOURCE = """
CREATE TABLE source (source TEXT PRIMARY KEY, topic TEXT NOT NULL, topic_id TEXT NOT NULL) STRICT;
CREATE TABLE offsets (
    source TEXT NOT NULL,           -- 'alerts' or 'commands'
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
"""

SINCE_2 = """
-- incident: the alert that opened the incident that this one belongs to
ALTER TABLE alerts ADD COLUMN incident TEXT;
CREATE INDEX alerts_by_incident ON alerts (incident);
CREATE TABLE incidents (
    alert_id TEXT PRIMARY KEY,
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    site_id TEXT NOT NULL,
    severity TEXT NOT NULL,         -- the highest it reached
    start_time TEXT NOT NULL,
    end_time TEXT,
    summary TEXT NOT NULL
) STRICT;
CREATE TABLE lives (
    rule TEXT NOT NULL,
    subject TEXT NOT NULL,
    site_id TEXT NOT NULL,
    needs_attention INTEGER NOT NULL,
    life TEXT NOT NULL,             -- alerting.life.Life as JSON
    PRIMARY KEY (rule, subject)
) STRICT;
CREATE INDEX lives_by_site ON lives (site_id) WHERE needs_attention;
CREATE TABLE commands (
    number INTEGER PRIMARY KEY,     -- in the order in which they were taken
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
CREATE TABLE sites (
    site_id TEXT PRIMARY KEY,
    last_ms INTEGER,                -- when the last notice was made
    due_ms INTEGER                  -- when to look whether there is another
) STRICT;
CREATE INDEX sites_by_due ON sites (due_ms);
CREATE TABLE notices (
    notice_id TEXT PRIMARY KEY,
    site_id TEXT NOT NULL,
    made_time TEXT NOT NULL,
    notice TEXT NOT NULL            -- alerting.notices.Notice as JSON
) STRICT;
CREATE INDEX notices_by_site ON notices (site_id);
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    route TEXT NOT NULL,
    notice_id TEXT NOT NULL REFERENCES notices (notice_id),
    tries INTEGER NOT NULL DEFAULT 0,
    error TEXT,                     -- of the last try that failed
    outcome TEXT,                   -- null while it waits, then 'delivered' or 'dead'
    outcome_time TEXT
) STRICT;
CREATE INDEX outbox_waiting ON outbox (route, number) WHERE outcome IS NULL;
"""

RENAME_1 = """
ALTER TABLE source RENAME TO source_1;
ALTER TABLE offsets RENAME TO offsets_1;
ALTER TABLE malformed RENAME TO malformed_1;
"""

MOVE_1 = """
INSERT INTO source SELECT 'alerts', topic, topic_id FROM source_1;
INSERT INTO offsets SELECT 'alerts', partition, next_offset FROM offsets_1;
INSERT INTO malformed SELECT 'alerts', partition, offset, error, seen_time FROM malformed_1;
DROP TABLE source_1;
DROP TABLE offsets_1;
DROP TABLE malformed_1;
"""


def version(db: sqlite3.Connection) -> int | None:
    """Return the version of a database's tables, 0 for one without tables, None for another program's."""
    (found,) = db.execute("PRAGMA user_version").fetchone()
    if found == 0 and db.execute("SELECT 1 FROM sqlite_master").fetchone():
        return None
    return int(found) if 0 <= found <= FORMAT else None


def create(db: sqlite3.Connection) -> None:
    """Make the tables in an empty database, as one step."""
    db.executescript(f"BEGIN; {SINCE_1} {PER_SOURCE} {SINCE_2} PRAGMA user_version = {FORMAT}; COMMIT;")


def upgrade(db: sqlite3.Connection) -> None:
    """Make the tables of version 1 those of this version, inside a transaction; their contents stay."""
    for statement in "".join((RENAME_1, PER_SOURCE, MOVE_1, SINCE_2)).split(";\n"):
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {FORMAT}")
