"""The topic `incidents` on a real broker: what `alerting` shows, after kills and outages too."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaAdminClient

from broker import server
from broker.server import free_port
from broker.topics import create_topics
from events.records import Alert, AlertCommand, encode
from events.times import now_ms, to_text
from events.topics import ALERT_COMMANDS, ALERTS, INCIDENTS
from tests.builders import new_alert, new_command
from tests.integration.conftest import Command
from tests.support import Kafka, Sender, above, equal_to, eventually, kill, program, run
from tests.unit.metrics import value

pytestmark = pytest.mark.full

Row = dict[str, Any]
AT_ONCE = ("--group-wait=0", "--group-interval=0.2", "--flap-changes=4")
DAY_MS = 24 * 3_600_000
Shown = Callable[..., list[Row]]


@pytest.fixture
def shown(command: Command) -> Shown:
    """Return a function that returns the incidents which a command of alerting prints."""

    def incidents(database: Path, *words: str) -> list[Row]:
        status, printed, error = command("alerting", *words, f"--database={database}", "--json")
        assert status == 0, error
        return [json.loads(line) for line in printed.splitlines()]

    return incidents


def last_records(topics: Kafka) -> dict[str, Row]:
    """Return the last record per key of the topic `incidents`, without removed keys."""
    last: dict[str, Row | None] = {}
    for record in topics.read_all(INCIDENTS):
        last[(record.key or b"").decode()] = json.loads(record.value) if record.value else None
    return {key: row for key, row in last.items() if row is not None}


def assert_topic_is_what_is_shown(topics: Kafka, database: Path, shown: Shown) -> dict[str, Row]:
    """Compare the topic with `list`, and with the last incident of each key in `history`."""
    found = last_records(topics)
    open_rows = {f"{row['rule']}|{row['subject']}": row for row in shown(database, "list")}
    assert {key: row for key, row in found.items() if row["end_time"] is None} == open_rows
    last = {
        f"{row['rule']}|{row['subject']}": row
        for row in reversed(shown(database, "history", "--limit=1000000"))
    }
    assert found == last
    return found


@contextmanager
def published_count(topics: Kafka) -> Iterator[Callable[[], int]]:
    """Yield a function that returns how many records the topic `incidents` has received."""
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": "tests"})
    parts = [TopicPartition(topics.name(INCIDENTS), n) for n in range(INCIDENTS.partitions)]

    def count() -> int:
        return sum(consumer.get_watermark_offsets(part)[1] for part in parts)

    def is_known() -> bool:
        try:
            return count() >= 0
        except KafkaException:  # right after its creation, a topic's leaders are not known yet
            return False

    try:
        eventually(is_known)
        yield count
    finally:
        consumer.close()


class History:
    """A random stream of alerts, their repeats, and operators' commands."""

    def __init__(self, topics: Kafka, seed: int) -> None:
        self._topics, self._draw, self._number = topics, random.Random(seed), 0
        self._recent: list[Alert] = []
        self._acknowledged = new_alert(
            0, now_ms(), "rack-acknowledged", "WARNING", "error", site_id="site-never-silenced"
        )

    @contextmanager
    def being_sent(self) -> Iterator[None]:
        """Send records beside the test."""
        stop = threading.Event()
        sender = threading.Thread(target=self._send, args=(stop,))
        sender.start()
        try:
            yield
        finally:
            stop.set()
            sender.join()

    def _send(self, stop: threading.Event) -> None:
        # Some 600 records a second: a kill meets many, and few must be read again after it.
        with closing(Sender(self._topics)) as sender:
            while not stop.wait(0.03):
                # No later alert ends the acknowledgement of this one.
                alerts = [self._acknowledged, *(self._alert() for _ in range(25))]
                sender.send(ALERTS, [(each.subject, encode(each)) for each in alerts])
                commands = [self._command() for _ in range(4)]
                commands.append(self._new_command("ack", self._acknowledged.subject))
                sender.send(ALERT_COMMANDS, [(each.subject, encode(each)) for each in commands])

    def _alert(self) -> Alert:
        if self._recent and self._draw.random() < 0.1:
            return self._draw.choice(self._recent)
        self._number += 1
        site = self._draw.randrange(4)
        state = self._draw.choice(("WARNING", "WARNING", "NORMAL"))
        severity = self._draw.choice(("error", "critical")) if state == "WARNING" else "info"
        changes: dict[str, Any] = {"site_id": f"site-{site}"}
        if self._draw.random() < 0.05:
            subject, changes["rule"] = f"site-{site}", "site-outage"
        else:
            subject = f"rack-{site}-{self._draw.randrange(20)}"
        alert = new_alert(self._number, now_ms(), subject, state, severity, **changes)
        self._recent = [*self._recent[-50:], alert]
        return alert

    def _command(self) -> AlertCommand:
        site = self._draw.randrange(4)
        command = self._draw.choice(("ack", "ack", "silence", "silence", "unsilence"))
        of_site = command != "ack" and self._draw.random() < 0.3
        subject = f"site-{site}" if of_site else f"rack-{site}-{self._draw.randrange(20)}"
        changes = {}
        if command == "silence":
            # Nothing may end between the process's last record and the comparison.
            changes["until"] = to_text(now_ms() + self._draw.choice((100, 7_200_000)))
        return self._new_command(command, subject, **changes)

    def _new_command(self, command: str, subject: str, **changes: str) -> AlertCommand:
        self._number += 1
        return new_command(self._number, now_ms(), command, subject, **changes)


def test_changes_are_published_and_keys_of_another_database_are_removed(
    topics: Kafka, tmp_path: Path, shown: Shown
) -> None:
    database = tmp_path / "db"
    command = ("alerting", "run", f"--database={database}", "--idle-exit=1")
    topics.send(INCIDENTS, [("rack-overheating|rack-of-another-database", b"{}")])
    now = now_ms()
    alerts = [
        new_alert(1, now, "rack-1", "WARNING", "error"),
        new_alert(2, now, "rack-2", "WARNING", "error"),
        new_alert(3, now, "rack-2", "NORMAL", "info"),
        new_alert(4, now - 2 * DAY_MS, "rack-3", "WARNING", "error"),
        new_alert(5, now - DAY_MS, "rack-3", "NORMAL", "info"),
    ]
    topics.send(ALERTS, [(each.subject, encode(each)) for each in alerts])
    assert run(*command, env=topics.env).returncode == 0
    found = last_records(topics)
    assert {key: row["status"] for key, row in found.items()} == {
        "rack-overheating|rack-1": "firing",
        "rack-overheating|rack-2": "resolved",
    }
    assert found["rack-overheating|rack-1"] == shown(database, "list")[0]
    count = len(topics.read_all(INCIDENTS))
    assert run(*command, env=topics.env).returncode == 0
    assert len(topics.read_all(INCIDENTS)) == count, "nothing has changed"


def test_the_topic_is_what_list_shows_after_kills_at_any_moment(
    topics: Kafka, tmp_path: Path, shown: Shown
) -> None:
    database, output = tmp_path / "db", tmp_path / "output"
    command = ("alerting", "run", f"--database={database}", *AT_ONCE)
    history, draw = History(topics, 20261123), random.Random(20261123)
    with published_count(topics) as published:
        for number in range(8):
            # The first kill is at the first record of all.
            kill_above = published() + (draw.randrange(150) if number else 0)
            with (
                history.being_sent(),
                program(*command, env=topics.env, output=output) as process,
            ):
                eventually(published, above(kill_above), every_s=0.001, timeout_s=60)
                assert process.poll() is None, output.read_text()[-1000:]
                kill(process)
            done = run(*command, "--idle-exit=1", env=topics.env)
            assert done.returncode == 0, done.stderr
            found = assert_topic_is_what_is_shown(topics, database, shown)
    statuses = {row["status"] for row in found.values()}
    assert statuses == {"firing", "acknowledged", "silenced", "resolved"}
    assert any(row["repeats"] for row in found.values())
    assert any(row["flapping"] for row in found.values())


def test_a_silence_that_ends_while_the_broker_is_away_is_published_when_it_is_back(
    tmp_path: Path, shown: Shown
) -> None:
    """Health checks see the outage, its end, and that the process was killed."""
    database, output, port = tmp_path / "db", tmp_path / "output", free_port()
    home = {"RACKSTREAM_HOME": str(tmp_path)}

    def health() -> str:
        done = run("alerting", "health", f"--database={database}", env=home)
        assert done.returncode == (0 if done.stdout else 1)
        return done.stdout + done.stderr

    def health_where_metric_says(healthy: int) -> str:
        """Return what the command says; it starts a process, so the metric is asked first."""
        found = value(port, "healthy")
        return health() if found == healthy else f"the metric healthy is {found}"

    running = server.start(free_port(), tmp_path / "kafka")
    try:
        topics = Kafka(running.bootstrap, "")
        create_topics(topics.bootstrap)

        def status() -> str | None:
            row = last_records(topics).get("rack-overheating|rack-1")
            return row["status"] if row else None

        alert = new_alert(1, now_ms(), "rack-1", "WARNING", "error")
        command = ("alerting", "run", f"--database={database}", f"--metrics-port={port}")
        with program(*command, env=topics.env | home, output=output) as process:
            topics.send(ALERTS, [("rack-1", encode(alert))])
            eventually(status, equal_to("firing"))
            until = to_text(now_ms() + 6000)
            silence = new_command(2, now_ms(), "silence", "rack-1", until=until)
            topics.send(ALERT_COMMANDS, [("rack-1", encode(silence))])
            eventually(status, equal_to("silenced"))
            is_healthy = f"healthy: process {process.pid} has read 1 alerts\n"
            assert health() == is_healthy
            running.stop()
            eventually(lambda: shown(database, "list")[0]["status"], equal_to("firing"))
            eventually(output.read_text, lambda text: "could not be published" in text)
            unhealthy = partial(health_where_metric_says, 0)
            eventually(unhealthy, lambda text: "has not answered for 3" in text, timeout_s=60)
            running = server.start(running.port, tmp_path / "kafka")
            eventually(status, equal_to("firing"))
            eventually(output.read_text, lambda text: "Incidents are published again" in text)
            eventually(partial(health_where_metric_says, 1), equal_to(is_healthy))
            kill(process)
            assert f"alerting: process {process.pid} was killed" in health()
    finally:
        running.stop()


def test_a_missing_topic_ends_in_a_sentence(topics: Kafka, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
    admin.delete_topics([topics.name(INCIDENTS)])
    admin.close()
    eventually(lambda: topics.partitions(INCIDENTS), equal_to(set()))
    done = run("alerting", "run", f"--database={tmp_path / 'db'}", env=topics.env)
    assert done.returncode == 1
    assert done.stderr.startswith(f"alerting: the topic {topics.name(INCIDENTS)} does not exist on")
    assert done.stderr.count("\n") == 1


def test_a_topic_that_is_created_again_gets_everything_although_nothing_changes(
    topics: Kafka, tmp_path: Path
) -> None:
    # No notice is due, which would change the incident.
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", "--group-wait=1h")
    output = tmp_path / "output"
    alert = new_alert(1, now_ms(), "rack-1", "WARNING", "error")
    topics.send(ALERTS, [("rack-1", encode(alert))])
    with program(*command, env=topics.env, output=output):
        eventually(lambda: list(last_records(topics)), equal_to(["rack-overheating|rack-1"]))
        admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
        admin.delete_topics([topics.name(INCIDENTS)])
        admin.close()
        eventually(output.read_text, lambda text: "no longer exists" in text)
        create_topics(topics.bootstrap, topics.prefix)
        eventually(output.read_text, lambda text: "exists again" in text)
        eventually(lambda: list(last_records(topics)), equal_to(["rack-overheating|rack-1"]))
