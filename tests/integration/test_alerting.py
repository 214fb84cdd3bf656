"""The alert log on a real broker: restarts, kills, repeats, malformed records, broker outages."""

import os
import pty
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaAdminClient

from alerting.store import Counts, Store, read_counts
from broker import server
from broker.server import free_port
from broker.topics import create_topics
from events.topics import ALERTS
from tests.alerting import run_without_a_broker
from tests.builders import alert_value, number_of
from tests.support import ROOT, Kafka, above, equal_to, eventually, kill, program, run

pytestmark = pytest.mark.full

IDLE = "--idle-exit=1"


def send(topics: Kafka, numbers: list[int]) -> None:
    topics.send(ALERTS, [(f"rack-{number % 10:04d}", alert_value(number)) for number in numbers])


def numbers_in(lines: bytes) -> list[int]:
    """Return the numbers of the alerts in complete lines; a running program may be writing one."""
    whole, _, _ = lines.rpartition(b"\n")
    return [number_of(msgspec.json.decode(line)["alert_id"]) for line in whole.splitlines()]


def test_each_alert_is_logged_once_even_across_restarts(topics: Kafka, tmp_path: Path) -> None:
    database = f"--database={tmp_path / 'db'}"
    send(topics, [1, 2, 3, 2, 2, 1])
    topics.send(ALERTS, [("rack-0001", b"not JSON"), ("rack-0001", None), (None, alert_value(4))])
    topics.send(ALERTS, [("rack-0001", alert_value(5, summary="x" * 900_000))])

    first = run("alerting", "run", database, IDLE, env=topics.env)
    assert first.returncode == 0
    assert sorted(numbers_in(first.stdout.encode())) == [1, 2, 3, 4, 5]
    assert first.stderr.count("A record is not a valid alert and was skipped") == 2
    assert "Logged 5 alerts, 3 repeats removed, 2 malformed records." in first.stderr

    send(topics, [3, 6])
    second = run("alerting", "run", database, IDLE, env=topics.env)
    assert second.returncode == 0
    assert numbers_in(second.stdout.encode()) == [6]
    assert "Logged 1 alerts, 1 repeats removed, 0 malformed records." in second.stderr
    assert "created: 6 alerts, 4 repeats removed, 2 malformed records." in second.stderr

    counts = run("alerting", "counts", database)
    assert counts.stdout == "6 alerts, 4 repeats removed, 2 malformed records\n"


def test_kills_at_any_moment_neither_lose_nor_repeat_an_alert(
    topics: Kafka, tmp_path: Path
) -> None:
    draw = random.Random(20261121)
    alerts, kills = 20_000, 10
    numbers = list(range(alerts)) + draw.choices(range(alerts), k=alerts // 5)
    draw.shuffle(numbers)
    log_file, output = tmp_path / "alerts.jsonl", tmp_path / "output"
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", f"--log-file={log_file}")

    def size() -> int:
        return log_file.stat().st_size if log_file.exists() else 0

    def send_all() -> None:
        for start in range(0, len(numbers), 2000):
            send(topics, numbers[start : start + 2000])

    sender = threading.Thread(target=send_all)
    sender.start()
    line = len(alert_value(1)) + len('"first_seen_time":"2026-11-21T06:30:00.000Z",\n')
    sizes_at_kill = sorted(draw.randrange(alerts * line * 6 // 10) for _ in range(kills - 1))
    for size_at_kill in [0, *sizes_at_kill]:  # the first kill is during the first batch
        with program(*command, env=topics.env, output=output) as process:
            eventually(size, above(size_at_kill), every_s=0.0002, timeout_s=60)
            assert process.poll() is None, output.read_text()[-1000:]
            kill(process)
    sender.join()
    last = run(*command, IDLE, env=topics.env)
    assert last.returncode == 0, last.stderr

    logged = Counter(numbers_in(log_file.read_bytes()))
    assert logged == Counter(range(alerts))
    assert read_counts(tmp_path / "db") == Counts(alerts=alerts, repeats=len(numbers) - alerts)
    shown = [line for line in output.read_bytes().splitlines() if line.endswith(b"}")]
    assert set(numbers_in(b"\n".join(shown) + b"\n" + last.stdout.encode())) == set(range(alerts))


@pytest.mark.parametrize(("with_signal", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_stop_signal_commits_and_prints_the_counts(
    topics: Kafka, tmp_path: Path, with_signal: signal.Signals, status: int
) -> None:
    output = tmp_path / "output"
    send(topics, [1, 2, 2])
    with program(
        "alerting", "run", f"--database={tmp_path / 'db'}", env=topics.env, output=output
    ) as process:
        eventually(
            lambda: read_counts(tmp_path / "db").alerts if (tmp_path / "db").exists() else 0,
            equal_to(2),
        )
        assert kill(process, with_signal) == status
    assert "Logged 2 alerts, 1 repeats removed, 0 malformed records." in output.read_text()
    assert read_counts(tmp_path / "db") == Counts(alerts=2, repeats=1)


def test_partitions_added_while_it_runs_are_read(topics: Kafka, tmp_path: Path) -> None:
    log_file = tmp_path / "alerts.jsonl"
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", f"--log-file={log_file}")
    with program(*command, env=topics.env, output=tmp_path / "output"):
        topics.send(ALERTS, [(None, alert_value(1))], partition=3)
        eventually(lambda: log_file.exists() and numbers_in(log_file.read_bytes()), equal_to([1]))
        admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
        admin.create_partitions({topics.name(ALERTS): 6})
        admin.close()
        eventually(lambda: len(topics.partitions(ALERTS)), equal_to(6))
        topics.send(ALERTS, [(None, alert_value(2))], partition=5)
        eventually(lambda: numbers_in(log_file.read_bytes()), equal_to([1, 2]))


def test_a_terminal_shows_coloured_lines_instead_of_json(topics: Kafka, tmp_path: Path) -> None:
    send(topics, [1])
    controller, terminal = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "alerting", "run", f"--database={tmp_path / 'db'}", IDLE],
            cwd=ROOT,
            env=os.environ | topics.env | {"TERM": "xterm", "COLUMNS": "40"},
            stdout=terminal,
            stderr=subprocess.PIPE,
            timeout=60,
            check=True,
        )
        shown = os.read(controller, 10_000).decode()
    finally:
        os.close(controller)
        os.close(terminal)
    assert "WARNING rack-overheating rack-0001 at site-1: Rack 1 is too hot." in shown
    assert "\x1b[" in shown and "{" not in shown
    assert shown.count("\n") == 1
    assert b"Logged 1 alerts" in done.stderr


def test_a_missing_topic_ends_in_a_sentence(topics: Kafka, tmp_path: Path) -> None:
    env = topics.env | {"TOPIC_PREFIX": "missing-"}
    done = run("alerting", "run", f"--database={tmp_path / 'db'}", env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("alerting: the topic missing-alerts does not exist on ")
    assert done.stderr.count("\n") == 1


def test_a_deleted_topic_is_reported_and_a_recreated_one_refused(
    topics: Kafka, tmp_path: Path
) -> None:
    output, env = tmp_path / "output", topics.env | {"RACKSTREAM_HOME": str(tmp_path)}
    send(topics, [1])
    with program("alerting", "run", env=env, output=output) as process:
        eventually(lambda: '"alert_id"' in output.read_text())
        with closing(KafkaAdminClient(bootstrap_servers=topics.bootstrap)) as admin:
            admin.delete_topics([topics.name(ALERTS)])
        sentence = f"topic {topics.name(ALERTS)} no longer exists on {topics.bootstrap}"
        eventually(lambda: sentence in output.read_text())
        eventually(lambda: sentence in run("alerting", "health", env=env).stderr)
        assert "does not answer" not in output.read_text()
        create_topics(topics.bootstrap, topics.prefix)
        assert eventually(process.poll, lambda status: status is not None) == 1
    assert "which was deleted and created again since" in output.read_text()


def test_a_missing_broker_ends_in_a_sentence(tmp_path: Path) -> None:
    done = run_without_a_broker(
        "alerting.consumer.BOOTSTRAP_SECONDS", "run", f"--database={tmp_path / 'db'}"
    )
    assert done.returncode == 1
    assert "alerting: no broker answers at localhost:" in done.stderr


def test_a_database_ahead_of_its_topic_ends_in_a_sentence(topics: Kafka, tmp_path: Path) -> None:
    send(topics, [1])
    database = f"--database={tmp_path / 'db'}"
    assert run("alerting", "run", database, IDLE, env=topics.env).returncode == 0
    with Store(tmp_path / "db") as store, store.transaction():
        store._db.execute("UPDATE offsets SET next_offset = 100")
    done = run("alerting", "run", database, IDLE, env=topics.env)
    assert done.returncode == 1
    assert "the broker lost records" in done.stderr


def test_an_unreachable_broker_is_retried_and_a_recreated_one_is_refused(
    tmp_path: Path,
) -> None:
    data, output, log_file = tmp_path / "kafka", tmp_path / "output", tmp_path / "alerts.jsonl"
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", f"--log-file={log_file}")
    running = server.start(free_port(), data)
    try:
        topics = Kafka(running.bootstrap, "")
        create_topics(topics.bootstrap)
        send(topics, [1])
        with program(*command, env=topics.env, output=output) as process:
            eventually(
                lambda: log_file.exists() and numbers_in(log_file.read_bytes()), equal_to([1])
            )

            running.stop()
            eventually(output.read_text, lambda text: "does not answer" in text)
            running = server.start(running.port, data)
            send(topics, [1, 2])
            eventually(lambda: numbers_in(log_file.read_bytes()), equal_to([1, 2]))
            assert "answers again after" in output.read_text()
            # An alert is in the log before it is in the database.
            eventually(lambda: read_counts(tmp_path / "db"), equal_to(Counts(alerts=2, repeats=1)))

            running.stop()
            running = server.start(running.port, data, fresh=True)
            create_topics(topics.bootstrap)
            send(topics, [3] * 20)
            assert eventually(process.poll, lambda status: status is not None) == 1
            assert (
                "belongs to an earlier topic alerts, which was deleted and created again since"
                in output.read_text()
            )
            assert numbers_in(log_file.read_bytes()) == [1, 2]
    finally:
        running.stop()
