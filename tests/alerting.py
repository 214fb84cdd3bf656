"""Run alerting on a simulated clock, and alerting without a broker."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alerting.cli import queries
from alerting.incidents import repository, topic_outbox
from alerting.incidents.state import NotificationTiming
from alerting.notifications.notice import Notice
from alerting.store import Store
from broker.server import free_port
from events.records import Alert, AlertCommand, Incident, IncidentStatus, encode
from events.times import to_ms, to_text
from tests.builders import new_alert, new_command
from tests.support import ROOT

T0 = to_ms("2026-11-21T06:26:00.000Z")
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


@dataclass(frozen=True)
class FakeRecord:
    """A record as the consumer returns it."""

    offset: int
    value: bytes | None
    partition: int = 0
    timestamp: int = 0


@dataclass
class AlertingSimulation:
    """An alerting database, its two topics and a clock.

    Only `wait` advances the clock, and creates the notices that become due.
    """

    path: Path
    timing: NotificationTiming = field(default_factory=NotificationTiming)
    now_ms: int = T0
    channels: tuple[str, ...] = ()
    notices: list[Notice] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.store = Store(self.path, self.timing)

    def close(self) -> None:
        """Close the database."""
        self.store.__exit__()

    def restart(self) -> None:
        """Close the database and open it again, as the next process does."""
        self.close()
        self.store = Store(self.path, self.timing)

    def alert(
        self,
        subject: str = "rack-1",
        state: str = "WARNING",
        severity: str = "error",
        **changes: Any,
    ) -> Alert:
        """Send an alert decided now."""
        self.number += 1
        if state == "NORMAL":
            severity = "info"
        alert = new_alert(self.number, self.now_ms, subject, state, severity, **changes)
        self.send(encode(alert))
        return alert

    def send(self, value: bytes, partition: int = 0, timestamp: int = 0) -> None:
        """Send a record to the topic `alerts`."""
        with self.store.transaction():
            self.ingest(value, partition, timestamp)

    def ingest(self, value: bytes, partition: int = 0, timestamp: int = 0) -> None:
        """Ingest a record of the topic `alerts` in the caller's transaction."""
        offset = self.store.next_offsets().get(partition, 0)
        self.store.ingest_alerts(
            [FakeRecord(offset, value, partition, timestamp)], to_text(self.now_ms)
        )

    def command(self, command: str, subject: str = "rack-1", **changes: Any) -> AlertCommand:
        """Send a command given now."""
        self.number += 1
        new = new_command(self.number, self.now_ms, command, subject, **changes)
        self.send_command(encode(new))
        return new

    def send_command(self, value: bytes | None) -> int:
        """Send a record to the topic `alert-commands`; return the number of malformed records."""
        with self.store.transaction():
            offset = self.store.next_offsets("commands").get(0, 0)
            return len(
                self.store.ingest_commands([FakeRecord(offset, value)], to_text(self.now_ms))
            )

    def ack(self, alert: Alert, **changes: Any) -> AlertCommand:
        """Acknowledge the incident that an alert opened, as the command line does."""
        return self.command(
            "ack", alert.subject, alert_id=alert.alert_id, severity=alert.severity, **changes
        )

    def silence(self, for_ms: int, subject: str = "rack-1", **changes: Any) -> AlertCommand:
        """Silence a subject for some time."""
        return self.command("silence", subject, until=to_text(self.now_ms + for_ms), **changes)

    def wait(self, for_ms: int) -> list[Notice]:
        """Advance the clock, and return the notices created meanwhile."""
        end_ms, known = self.now_ms + for_ms, len(self.notices)
        while (due := self.next_check_ms()) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self.notices += self.store.create_due_notices(self.now_ms, self.channels)
        self.now_ms = end_ms
        return self.notices[known:]

    def next_check_ms(self) -> int | None:
        """Return when a site has to be checked next."""
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute("SELECT min(next_check_ms) FROM site_schedule").fetchone()[0]  # type: ignore[no-any-return]

    def pending_changes(self, rule: str, subject: str) -> int:
        """Return how many alerts of a subject are in no notice yet."""
        with queries.open_database(self.path) as db:
            incident = repository.load_incident(db, rule, subject)
        return incident.pending_changes if incident is not None else 0

    def publish(self, topic: dict[bytes, bytes]) -> int:
        """Publish what is marked as changed into a compacted topic; return how many records."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as db:
            records = topic_outbox.unpublished(db, self.now_ms, 1000)
            topic_outbox.record_published(db, records)
        for record in records:
            topic.pop(record.key, None)
            if record.value is not None:
                topic[record.key] = record.value
        return len(records)

    def expected_topic(self) -> dict[bytes, bytes]:
        """Return what the topic `incidents` must hold: what `history` shows, without the outbox."""
        last: dict[bytes, Incident] = {}
        for each in reversed(self.incidents()):
            last[f"{each.rule}|{each.subject}".encode()] = each
        return {
            key: encode(each)
            for key, each in last.items()
            if each.status != "resolved" or self.now_ms - self.resolved_ms(each) < 24 * HOUR
        }

    def resolved_ms(self, incident: Incident) -> int:
        """Return when the last alert of a resolved incident was detected."""
        with closing(sqlite3.connect(self.path)) as db:
            (text,) = db.execute(
                "SELECT alert FROM alerts WHERE alert_id = ?", (incident.last_alert_id,)
            ).fetchone()
        return to_ms(json.loads(text)["detected_time"])

    def incidents(self) -> list[Incident]:
        """Return all incidents, the newest first."""
        with queries.open_database(self.path) as db:
            return queries.list_incidents(db, self.now_ms)

    def status(self, subject: str = "rack-1") -> IncidentStatus:
        """Return the status of a subject's last incident."""
        return next(each.status for each in self.incidents() if each.subject == subject)


def notified(notices: list[Notice]) -> list[list[str]]:
    """Return the sorted items of each notice, such as `firing rack-1`."""
    return [sorted(f"{item.kind} {item.subject}" for item in notice.items) for notice in notices]


def run_without_a_broker(timeout_name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run alerting without a broker, with the constant `alerting.module.NAME` set to 1 second."""
    module = timeout_name.rpartition(".")[0]
    setup = f"from alerting import __main__ as program; import {module}; {timeout_name} = 1;"
    program = f"{setup} program.cli.run(program.app, 'alerting')"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=os.environ | {"KAFKA_BOOTSTRAP_SERVERS": f"localhost:{free_port()}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
