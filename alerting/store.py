"""Store alerts, incidents, the offsets read so far, and the length of the log file.

All of it is one SQLite file, and each batch of records is one transaction. Alerts, incidents, due
notices, offsets and the length of the log file change together or not at all, so a crash at any
moment leaves a consistent state.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from alerting import schema
from alerting.decoding import (
    MalformedRecord,
    NewAlert,
    Source,
    SourceRecord,
    decode_alert,
    decode_command,
)
from alerting.incidents import repository
from alerting.incidents.notification_policy import NEVER_MS
from alerting.incidents.state import NotificationTiming, RecordPosition
from alerting.notifications import outbox
from alerting.notifications.notice import Notice
from events.cli import UserFacingError
from events.files import exclusive_lock
from events.times import to_ms


@dataclass(slots=True)
class Counts:
    """The numbers of logged alerts, removed repeats and malformed records."""

    alerts: int = 0
    repeats: int = 0
    malformed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.alerts} alerts, {self.repeats} repeats removed, "
            f"{self.malformed} malformed records"
        )


@dataclass(slots=True)
class AlertBatch:
    """The outcome of one batch of the topic `alerts`."""

    new_alerts: list[NewAlert] = field(default_factory=list)
    malformed: list[MalformedRecord] = field(default_factory=list)
    repeats: int = 0


class Store:
    """The database of one alerting process, as a context manager that locks it.

    `timing` says when people are notified.
    """

    def __init__(self, path: Path, timing: NotificationTiming | None = None) -> None:
        self.path = path
        self._timing = timing or NotificationTiming()
        self._last_now_ms = NEVER_MS  # the clock may have been set back since the last run
        with ExitStack() as opened:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                opened.enter_context(
                    exclusive_lock(
                        path.with_name(path.name + ".lock"),
                        f"another alerting process writes to the database {path}: stop it, or "
                        "choose another with --database.",
                        "choose another database with --database",
                    )
                )
                # isolation_level=None: only `transaction` begins and ends transactions.
                self._db = opened.enter_context(
                    closing(sqlite3.connect(path, isolation_level=None, timeout=30))
                )
                self._prepare()
            except (OSError, sqlite3.Error) as error:
                raise UserFacingError(
                    f"the database {path} cannot be used ({error}): choose another with --database."
                ) from None
            self._opened = opened.pop_all()

    def _prepare(self) -> None:
        is_new = schema.is_empty(self._db)
        if not is_new:
            schema.check_format(self._db, self.path)
        self._db.execute("PRAGMA journal_mode = WAL")
        # In this mode a crash loses nothing. A power cut may lose the last transactions, but only
        # whole and in order, and their records are read from Kafka again.
        self._db.execute("PRAGMA synchronous = NORMAL")
        if is_new:
            schema.create_tables(self._db)
        schema.create_additions(self._db)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done inside, or roll it back when it raises."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def bind_topic(self, topic: str, topic_id: str, source: Source = "alerts") -> None:
        """Bind a new database to its topic; raise `UserFacingError` if it is bound to another.

        Kafka gives each topic an id when it is created, so the id also tells clusters apart.
        """
        bound = self._db.execute(
            "SELECT topic, topic_id FROM topics WHERE source = ?", (source,)
        ).fetchone()
        if bound is None:
            self._db.execute("INSERT INTO topics VALUES (?, ?, ?)", (source, topic, topic_id))
        elif bound != (topic, topic_id):
            which = (
                f"an earlier topic {topic}, which was deleted and created again since "
                "(`broker up --fresh`) or is on another broker"
                if bound[0] == topic
                else f"the topic {bound[0]}, not {topic}"
            )
            raise UserFacingError(
                f"the database {self.path} belongs to {which}: choose another with --database, "
                "or remove it to log all alerts of this topic."
            )

    def next_offsets(self, source: Source = "alerts") -> dict[int, int]:
        """Return the offset of the next record to ingest, for each partition read so far."""
        return dict(
            self._db.execute(
                "SELECT partition, next_offset FROM offsets WHERE source = ?", (source,)
            )
        )

    def ingest_alerts(self, records: Iterable[SourceRecord], seen_time: str) -> AlertBatch:
        """Ingest records of `alerts` inside a `transaction`, skipping offsets ingested before."""
        batch = AlertBatch()

        def ingest_one(record: SourceRecord) -> None:
            new = decode_alert(record, seen_time)
            if self._insert_alert(new, record):
                batch.new_alerts.append(new)
            else:
                batch.repeats += 1

        batch.malformed = self._ingest("alerts", records, seen_time, ingest_one)
        return batch

    def ingest_commands(
        self, records: Iterable[SourceRecord], seen_time: str
    ) -> list[MalformedRecord]:
        """Ingest records of the topic `alert-commands` inside a `transaction`.

        Return the malformed ones.
        """

        def ingest_one(record: SourceRecord) -> None:
            command = decode_command(record.value)
            repository.record_command(self._db, command, to_ms(seen_time), self._timing)

        return self._ingest("commands", records, seen_time, ingest_one)

    def _ingest(
        self,
        source: Source,
        records: Iterable[SourceRecord],
        seen_time: str,
        ingest_one: Callable[[SourceRecord], None],
    ) -> list[MalformedRecord]:
        """Ingest each new record, store as malformed what raises `ValueError`, advance offsets."""
        malformed = []
        next_offsets = self.next_offsets(source)
        for record in records:
            if record.offset < next_offsets.get(record.partition, 0):
                continue
            next_offsets[record.partition] = record.offset + 1
            try:
                ingest_one(record)
            except ValueError as error:
                bad = MalformedRecord(record.partition, record.offset, str(error))
                self._db.execute(
                    "INSERT INTO malformed VALUES (?, ?, ?, ?, ?)",
                    (source, bad.partition, bad.offset, bad.error, seen_time),
                )
                malformed.append(bad)
        self._db.executemany(
            "INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)",
            [(source, partition, offset) for partition, offset in next_offsets.items()],
        )
        return malformed

    def _insert_alert(self, new: NewAlert, record: SourceRecord) -> bool:
        """Store a new alert and apply it to its incident, or count a repeat and return False."""
        alert_id = new.alert.alert_id
        inserted = self._db.execute(
            "INSERT INTO alerts (alert_id, alert, first_seen_time, partition, offset)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO NOTHING",
            (alert_id, new.text, new.first_seen_time, record.partition, record.offset),
        )
        if not inserted.rowcount:
            self._db.execute(
                "UPDATE alerts SET repeats = repeats + 1 WHERE alert_id = ?", (alert_id,)
            )
            repository.mark_changed(self._db, new.alert.rule, new.alert.subject)
            return False
        position = RecordPosition(record.partition, record.timestamp)
        incident_id = repository.record_alert(
            self._db, new.alert, position, to_ms(new.first_seen_time), self._timing
        )
        self._db.execute(
            "UPDATE alerts SET incident_id = ? WHERE alert_id = ?", (incident_id, alert_id)
        )
        return True

    def create_due_notices(self, now_ms: int, channels: Sequence[str] = ()) -> list[Notice]:
        """Create the due notices and queue them for the channels, in one transaction."""
        if now_ms < self._last_now_ms:
            with self.transaction():
                repository.reschedule(self._db, now_ms, self._timing)
        self._last_now_ms = now_ms
        due = self._db.execute(
            "SELECT 1 FROM site_schedule WHERE next_check_ms <= ?", (now_ms,)
        ).fetchone()
        if due is None:
            return []
        with self.transaction():
            return repository.create_due_notices(self._db, now_ms, self._timing, channels)

    def waiting_for_unset_channels(self, channels: Sequence[str]) -> dict[str, int]:
        """Return how many notices wait for each channel that is not in `channels`."""
        return outbox.waiting_for_unset_channels(self._db, channels)

    def log_file(self, path: Path) -> tuple[int, int] | None:
        """Return inode and committed length of a log file, or None for a new one."""
        row = self._db.execute(
            "SELECT inode, length FROM log_files WHERE path = ?", (str(path),)
        ).fetchone()
        return None if row is None else (int(row[0]), int(row[1]))

    def set_log_file(self, path: Path, inode: int, length: int) -> None:
        """Record inode and length of a log file, to be committed with this transaction."""
        self._db.execute(
            "INSERT OR REPLACE INTO log_files VALUES (?, ?, ?)", (str(path), inode, length)
        )

    def counts(self) -> Counts:
        """Return the counts since the database was created."""
        return _counts(self._db)


def read_counts(path: Path, *, commands: bool = True) -> Counts:
    """Return the counts of a database, even while an alerting process creates or writes it.

    `commands`: count the malformed records of the topic `alert-commands`, too.
    """
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        if schema.is_empty(db):
            return Counts()
        schema.check_format(db, path)
        return _counts(db, commands=commands)


def read_alerts(path: Path) -> list[bytes]:
    """Return the alerts of a database as JSON objects, each once."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        if schema.is_empty(db):
            return []
        schema.check_format(db, path)
        return [alert.encode() for (alert,) in db.execute("SELECT alert FROM alerts")]


def _counts(db: sqlite3.Connection, *, commands: bool = True) -> Counts:
    return Counts(
        *db.execute(
            "SELECT (SELECT count(*) FROM alerts), (SELECT coalesce(sum(repeats), 0) FROM alerts),"
            " (SELECT count(*) FROM malformed WHERE ? OR source = 'alerts')",
            (commands,),
        ).fetchone()
    )
