"""What alerting remembers: the alerts seen, how far each partition was read, and how long the log file is.

All of it is one SQLite file, and every batch of records is one transaction: the alerts, the offsets behind
them and the length of the log file move together or not at all, so a kill at any moment leaves a whole past.
"""

import fcntl
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from events.cli import PersonError
from events.records import Alert

FORMAT = 1
"""The version of the tables, in SQLite's `user_version`."""

TABLES = """
CREATE TABLE source (topic TEXT NOT NULL, topic_id TEXT NOT NULL) STRICT;
CREATE TABLE offsets (partition INTEGER PRIMARY KEY, next_offset INTEGER NOT NULL) STRICT;
CREATE TABLE alerts (
    alert_id TEXT PRIMARY KEY,
    alert TEXT NOT NULL,            -- the record's JSON, with any field that this version does not know
    first_seen_time TEXT NOT NULL,
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    repeats INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE malformed (
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    error TEXT NOT NULL,
    seen_time TEXT NOT NULL,
    PRIMARY KEY (partition, offset)
) STRICT;
CREATE TABLE log_files (path TEXT PRIMARY KEY, inode INTEGER NOT NULL, length INTEGER NOT NULL) STRICT;
"""


class SourceRecord(Protocol):
    """What is needed of a consumed record."""

    @property
    def partition(self) -> int: ...  # noqa: D102 - the names are Kafka's
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert seen for the first time: decoded, as the text that came, and when."""

    alert: Alert
    text: str
    first_seen_time: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record that is not an alert, and why."""

    partition: int
    offset: int
    error: str


@dataclass(slots=True)
class Counts:
    """How many alerts were logged, repeats removed, and records set aside because they are not alerts."""

    alerts: int = 0
    repeats: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        return f"{self.alerts} alerts, {self.repeats} repeats removed, {self.malformed} malformed records"


@dataclass(slots=True)
class Taken:
    """What a batch brought."""

    alerts: list[NewAlert] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)
    repeats: int = 0


class Store:
    """The database of one alerting process. Open it with `with`: another process cannot while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with ExitStack() as opened:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                lock = opened.enter_context(path.with_name(path.name + ".lock").open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Transactions are begun and ended by `transaction` alone.
                self._db = opened.enter_context(
                    closing(sqlite3.connect(path, isolation_level=None, timeout=30))
                )
                self._prepare()
            except BlockingIOError:
                raise PersonError(
                    f"another alerting process writes to {path}: stop it, or choose another with --database."
                ) from None
            except (OSError, sqlite3.Error) as error:
                raise PersonError(
                    f"the database {path} cannot be used ({error}): choose another with --database."
                ) from None
            self._opened = opened.pop_all()

    def _prepare(self) -> None:
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found != FORMAT and (found or self._db.execute("SELECT 1 FROM sqlite_master").fetchone()):
            raise PersonError(
                f"{self.path} is not a database of this version of alerting: choose another with --database."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        # A process that is killed loses nothing in this mode. A power cut may take the last transactions, but
        # whole and in order: that is only an earlier past of the same kind, and Kafka has what came after it.
        self._db.execute("PRAGMA synchronous = NORMAL")
        if found != FORMAT:
            self._db.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT}; COMMIT;")

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all that is done inside one step: kept when it ends, undone when it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def bind(self, topic: str, topic_id: str) -> None:
        """Tie a new database to its topic; raise `PersonError` when it belongs to another.

        A topic's id is drawn when the topic is created, so it also tells a cluster from one begun anew.
        """
        known = self._db.execute("SELECT topic, topic_id FROM source").fetchone()
        if known is None:
            self._db.execute("INSERT INTO source VALUES (?, ?)", (topic, topic_id))
        elif known != (topic, topic_id):
            which = (
                f"an earlier topic {topic}, made anew since (`broker up --fresh`) or on another broker"
                if known[0] == topic
                else f"the topic {known[0]}, not {topic}"
            )
            raise PersonError(
                f"the database {self.path} belongs to {which}: choose another with --database, "
                "or remove it to log all alerts of this topic."
            )

    def next_offsets(self) -> dict[int, int]:
        """Return for each partition that was read the offset of its first record not yet taken."""
        return dict(self._db.execute("SELECT partition, next_offset FROM offsets"))

    def take(self, records: Iterable[SourceRecord], seen_time: str) -> Taken:
        """Take records in their order, inside a `transaction`; those taken before are passed over."""
        taken = Taken()
        next_offsets = self.next_offsets()
        for record in records:
            if record.offset < next_offsets.get(record.partition, 0):
                continue
            next_offsets[record.partition] = record.offset + 1
            try:
                new = _read(record.value, seen_time)
            except ValueError as error:
                bad = Malformed(record.partition, record.offset, str(error))
                self._db.execute(
                    "INSERT INTO malformed VALUES (?, ?, ?, ?)",
                    (bad.partition, bad.offset, bad.error, seen_time),
                )
                taken.malformed.append(bad)
                continue
            inserted = self._db.execute(
                "INSERT INTO alerts (alert_id, alert, first_seen_time, partition, offset)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO NOTHING",
                (new.alert.alert_id, new.text, seen_time, record.partition, record.offset),
            )
            if inserted.rowcount:
                taken.alerts.append(new)
            else:
                self._db.execute(
                    "UPDATE alerts SET repeats = repeats + 1 WHERE alert_id = ?", (new.alert.alert_id,)
                )
                taken.repeats += 1
        self._db.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?)", next_offsets.items())
        return taken

    def log_file(self, path: Path) -> tuple[int, int] | None:
        """Return the inode and the length that were committed for a log file, or None for a new one."""
        row = self._db.execute("SELECT inode, length FROM log_files WHERE path = ?", (str(path),)).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def set_log_file(self, path: Path, inode: int, length: int) -> None:
        """Record how long a log file is once this transaction is committed."""
        self._db.execute("INSERT OR REPLACE INTO log_files VALUES (?, ?, ?)", (str(path), inode, length))

    def counts(self) -> Counts:
        """Return the counts since the database was begun."""
        return _counts(self._db)


def read_counts(path: Path) -> Counts:
    """Return the counts of a database, also while an alerting process makes it or writes to it."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        being_made = db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        return Counts() if being_made else _counts(db)


def _counts(db: sqlite3.Connection) -> Counts:
    return Counts(
        *db.execute(
            "SELECT (SELECT count(*) FROM alerts), (SELECT coalesce(sum(repeats), 0) FROM alerts),"
            " (SELECT count(*) FROM malformed)"
        ).fetchone()
    )


def _read(value: bytes | None, seen_time: str) -> NewAlert:
    """Decode a record; raise `ValueError` that says what is wrong with it."""
    if value is None:
        raise ValueError("it has no value")
    try:
        return NewAlert(_DECODER.decode(value), value.decode("utf-8"), seen_time)
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


_DECODER = msgspec.json.Decoder(Alert)
