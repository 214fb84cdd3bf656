"""What alerting remembers: alerts and what became of them, how far it has read, how long the log file is.

All of it is one SQLite file, and every batch of records is one transaction: the alerts, their states, the
notices due, the offsets behind them and the length of the log file move together or not at all, so a kill at any
moment leaves a whole past.
"""

import fcntl
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from alerting import book, outbox, tables
from alerting.incoming import Malformed, NewAlert, Source, SourceRecord, read_alert, read_command
from alerting.life import Place, Times
from alerting.notices import Notice
from events.cli import PersonError
from events.times import to_ms


@dataclass(slots=True)
class Counts:
    """How many alerts were logged, repeats removed, and records set aside because they could not be read."""

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
    """The database of one alerting process. Open it with `with`: another process cannot while it is open.

    `times` says when people are told.
    """

    def __init__(self, path: Path, times: Times | None = None) -> None:
        self.path = path
        self._times = times or Times()
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
        found = tables.version(self._db)
        if found is None:
            raise PersonError(
                f"{self.path} is not a database of this version of alerting: choose another with --database."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        # A process that is killed loses nothing in this mode. A power cut may take the last transactions, but
        # whole and in order: that is only an earlier past of the same kind, and Kafka has what came after it.
        self._db.execute("PRAGMA synchronous = NORMAL")
        if found == 0:
            tables.create(self._db)
        elif found < tables.FORMAT:
            with self.transaction():
                tables.upgrade(self._db)
                self._relive()

    def _relive(self) -> None:
        """Find out what became of the alerts that an earlier version logged."""
        rows = self._db.execute(
            "SELECT alert, first_seen_time, partition FROM alerts ORDER BY rowid"
        ).fetchall()
        for text, seen_time, partition in rows:
            try:
                new = read_alert(text.encode(), seen_time)
            except ValueError:
                continue  # the earlier version did not look whether there is such a day
            self._enter(new, Place(partition, 0))
        book.forget_untold(self._db)

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

    def bind(self, topic: str, topic_id: str, source: Source = "alerts") -> None:
        """Tie a new database to its topic; raise `PersonError` when it belongs to another.

        A topic's id is drawn when the topic is created, so it also tells a cluster from one begun anew.
        """
        known = self._db.execute("SELECT topic, topic_id FROM source WHERE source = ?", (source,)).fetchone()
        if known is None:
            self._db.execute("INSERT INTO source VALUES (?, ?, ?)", (source, topic, topic_id))
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

    def next_offsets(self, source: Source = "alerts") -> dict[int, int]:
        """Return for each partition that was read the offset of its first record not yet taken."""
        return dict(
            self._db.execute("SELECT partition, next_offset FROM offsets WHERE source = ?", (source,))
        )

    def take(self, records: Iterable[SourceRecord], seen_time: str) -> Taken:
        """Take alerts in their order, inside a `transaction`; those taken before are passed over."""
        taken = Taken()

        def take_one(record: SourceRecord) -> None:
            new = read_alert(record.value, seen_time)
            if self._insert(new, record):
                taken.alerts.append(new)
                self._enter(new, Place(record.partition, record.timestamp))
            else:
                taken.repeats += 1

        taken.malformed = self._each("alerts", records, seen_time, take_one)
        return taken

    def take_commands(self, records: Iterable[SourceRecord], seen_time: str) -> list[Malformed]:
        """Take what people did, inside a `transaction`; return the records that are no commands."""

        def take_one(record: SourceRecord) -> None:
            book.take_command(self._db, read_command(record.value), to_ms(seen_time), self._times)

        return self._each("commands", records, seen_time, take_one)

    def _each(
        self,
        source: Source,
        records: Iterable[SourceRecord],
        seen_time: str,
        take_one: Callable[[SourceRecord], None],
    ) -> list[Malformed]:
        """Have each record taken that was not before, set aside what raises `ValueError`, move the offsets."""
        malformed = []
        next_offsets = self.next_offsets(source)
        for record in records:
            if record.offset < next_offsets.get(record.partition, 0):
                continue
            next_offsets[record.partition] = record.offset + 1
            try:
                take_one(record)
            except ValueError as error:
                bad = Malformed(record.partition, record.offset, str(error))
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

    def _insert(self, new: NewAlert, record: SourceRecord) -> bool:
        """Keep an alert and return True, or count it as a repeat."""
        inserted = self._db.execute(
            "INSERT INTO alerts (alert_id, alert, first_seen_time, partition, offset)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO NOTHING",
            (new.alert.alert_id, new.text, new.first_seen_time, record.partition, record.offset),
        )
        if not inserted.rowcount:
            self._db.execute(
                "UPDATE alerts SET repeats = repeats + 1 WHERE alert_id = ?", (new.alert.alert_id,)
            )
        return inserted.rowcount > 0

    def _enter(self, new: NewAlert, place: Place) -> None:
        """Let an alert begin, change or end its incident."""
        seen_ms = to_ms(new.first_seen_time)
        incident = book.take_alert(self._db, new.alert, place, seen_ms, self._times)
        self._db.execute("UPDATE alerts SET incident = ? WHERE alert_id = ?", (incident, new.alert.alert_id))

    def flush(self, now_ms: int, routes: Sequence[str] = ()) -> list[Notice]:
        """Make the notices that are due and queue them for the routes, as one step; return them."""
        due = self._db.execute("SELECT 1 FROM sites WHERE due_ms <= ?", (now_ms,)).fetchone()
        if due is None:
            return []
        with self.transaction():
            return book.flush(self._db, now_ms, self._times, routes)

    def waiting_elsewhere(self, routes: Sequence[str]) -> dict[str, int]:
        """Return how many notices wait for each route that is not among these."""
        return outbox.waiting_elsewhere(self._db, routes)

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
