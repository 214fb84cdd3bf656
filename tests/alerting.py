"""The words of the tests of alerts' lives: alerts and commands as they lie in their topics, and a clock to turn."""

import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from alerting import book, views
from alerting.life import Status, Times
from alerting.notices import Notice
from alerting.store import Store
from events.records import Alert, AlertCommand, encode
from events.times import to_ms, to_text
from tests.support import ROOT, free_port

T0 = to_ms("2026-11-21T06:26:00.000Z")
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000
OVERHEATING = "rack-overheating"


@dataclass(frozen=True)
class Incoming:
    """A record as the consumer hands it over."""

    offset: int
    value: bytes | None
    partition: int = 0
    timestamp: int = 0


def new_alert(number: int, moment_ms: int, subject: str, state: str, severity: str, **changes: Any) -> Alert:
    """Return an alert that was decided at a moment; its id is made from the number."""
    fields = {
        "alert_id": hashlib.sha256(str(number).encode()).hexdigest()[:32],
        "rule": OVERHEATING,
        "subject": subject,
        "site_id": "site-1",
        "state": state,
        "severity": severity,
        "event_time": to_text(moment_ms),
        "detected_time": to_text(moment_ms),
        "summary": f"{subject} is {state}.",
        "evidence": [],
    }
    return msgspec.convert(fields | changes, Alert)


def new_command(number: int, moment_ms: int, command: str, subject: str, **changes: Any) -> AlertCommand:
    """Return a command that somebody gave at a moment."""
    fields = {
        "command_id": f"command-{number}",
        "command": command,
        "rule": OVERHEATING,
        "subject": subject,
        "by": "ada",
        "event_time": to_text(moment_ms),
    }
    return msgspec.convert(fields | changes, AlertCommand)


@dataclass
class World:
    """An alerting database, both topics, and the time, which only `wait` moves; notices are made when they are due."""

    path: Path
    times: Times = field(default_factory=Times)
    now_ms: int = T0
    routes: tuple[str, ...] = ()
    notices: list[Notice] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.store = Store(self.path, self.times)

    def close(self) -> None:
        """Close the database."""
        self.store.__exit__()

    def restart(self) -> None:
        """Close the database and open it anew, as the next process does."""
        self.close()
        self.store = Store(self.path, self.times)

    def alert(
        self, subject: str = "rack-1", state: str = "WARNING", severity: str = "error", **changes: Any
    ) -> Alert:
        """Let an alert come, decided now."""
        self.number += 1
        if state == "NORMAL":
            severity = "info"
        alert = new_alert(self.number, self.now_ms, subject, state, severity, **changes)
        self.send(encode(alert))
        return alert

    def send(self, value: bytes, partition: int = 0, timestamp: int = 0) -> None:
        """Let a record come in the topic of alerts."""
        with self.store.transaction():
            self.take(value, partition, timestamp)

    def take(self, value: bytes, partition: int = 0, timestamp: int = 0) -> None:
        """Let a record come inside the caller's transaction."""
        offset = self.store.next_offsets().get(partition, 0)
        self.store.take([Incoming(offset, value, partition, timestamp)], to_text(self.now_ms))

    def command(self, command: str, subject: str = "rack-1", **changes: Any) -> AlertCommand:
        """Let a command come, given now."""
        self.number += 1
        given = new_command(self.number, self.now_ms, command, subject, **changes)
        self.send_command(encode(given))
        return given

    def send_command(self, value: bytes | None) -> int:
        """Let a record come in the topic of commands; return how many are malformed."""
        with self.store.transaction():
            offset = self.store.next_offsets("commands").get(0, 0)
            return len(self.store.take_commands([Incoming(offset, value)], to_text(self.now_ms)))

    def ack(self, alert: Alert, **changes: Any) -> AlertCommand:
        """Acknowledge what an alert opened, as the command line does."""
        return self.command("ack", alert.subject, alert_id=alert.alert_id, severity=alert.severity, **changes)

    def silence(self, for_ms: int, subject: str = "rack-1", **changes: Any) -> AlertCommand:
        """Silence for a while."""
        return self.command("silence", subject, until=to_text(self.now_ms + for_ms), **changes)

    def wait(self, for_ms: int) -> list[Notice]:
        """Let time pass, and return the notices that were made meanwhile."""
        end, made = self.now_ms + for_ms, len(self.notices)
        while (due := self.next_due()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.notices += self.store.flush(self.now_ms, self.routes)
        self.now_ms = end
        return self.notices[made:]

    def next_due(self) -> int | None:
        """Return when a site is to be looked at next."""
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute("SELECT min(due_ms) FROM sites").fetchone()[0]  # type: ignore[no-any-return]

    def untold(self, rule: str, subject: str) -> int:
        """Return how many alerts of a subject people have not been told of yet."""
        with views.reading(self.path) as db:
            life = book.life_of(db, rule, subject)
        return life.untold if life is not None else 0

    def incidents(self) -> list[views.Incident]:
        """Return all incidents, the newest first."""
        with views.reading(self.path) as db:
            return views.incidents(db, self.now_ms)

    def status(self, subject: str = "rack-1") -> Status:
        """Return the state of a subject's last incident."""
        return next(each.status for each in self.incidents() if each.subject == subject)


def told(notices: list[Notice]) -> list[list[str]]:
    """Return for each notice what it tells, sorted: `firing rack-1`."""
    return [sorted(f"{item.kind} {item.subject}" for item in notice.items) for notice in notices]


def run_without_a_broker(waits: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run alerting where no broker is; `waits` names what says how many seconds it tries: `module.NAME`."""
    module = waits.partition(".")[0]
    begin = f"from alerting import __main__ as program, {module}; {waits} = 1;"
    impatient = f"{begin} program.cli.run(program.app, 'alerting')"
    return subprocess.run(
        [sys.executable, "-c", impatient, *arguments],
        cwd=ROOT,
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": f"localhost:{free_port()}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
