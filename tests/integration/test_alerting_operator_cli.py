"""Operators' commands and notices on a real broker and real HTTP, despite kills and outages."""

import json
import shutil
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.server import free_port
from events.records import encode
from events.times import now_ms
from events.topics import ALERT_COMMANDS, ALERTS
from tests.alerting import T0, run_without_a_broker
from tests.builders import new_alert
from tests.support import Kafka, above, equal_to, eventually, kill, program, run
from tests.unit.test_alerting_channels import Receiver, serving

pytestmark = pytest.mark.full

AT_ONCE = ("--group-wait=0", "--group-interval=1", "--retry-initial=0.1", "--retry-max=0.2")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a running HTTP server."""
    with serving(Receiver()) as receiver:
        yield receiver


def fire(
    topics: Kafka, number: int, subject: str = "rack-1", state: str = "WARNING", **changes: Any
) -> str:
    """Send an alert, and return its id."""
    severity = "error" if state == "WARNING" else "info"
    alert = new_alert(number, T0 + number, subject, state, severity, **changes)
    topics.send(ALERTS, [(subject, encode(alert))])
    return alert.alert_id


def listed(database: str) -> dict[str, str]:
    """Return the status of each subject that `list` shows."""
    done = run("alerting", "list", database, "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["subject"]: each["status"] for each in found}


def delivered(database: Path) -> set[str]:
    """Return the ids of the notices that a database knows to be delivered, to any channel."""
    if not database.exists():
        return set()
    with closing(sqlite3.connect(database, timeout=30)) as db:
        query = "SELECT notice_id FROM outbox WHERE outcome = 'delivered'"
        made = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchone()
        return {notice_id for (notice_id,) in db.execute(query)} if made else set()


def test_a_command_reaches_every_process_and_survives_kills(topics: Kafka, tmp_path: Path) -> None:
    first, second = (f"--database={tmp_path / name}" for name in ("first", "second"))
    alert_id = fire(topics, 1)
    fire(topics, 2, "rack-2")
    output = tmp_path / "output"
    with (
        program("alerting", "run", first, env=topics.env, output=output) as one,
        program("alerting", "run", second, env=topics.env, output=output),
    ):
        both = {"rack-1": "firing", "rack-2": "firing"}
        eventually(lambda: (listed(first), listed(second)), equal_to((both, both)))
        acked = run("alerting", "ack", alert_id[:8], first, "--by=ada", env=topics.env)
        assert acked.stdout == "Acknowledged rack-overheating of rack-1 by ada.\n", acked.stderr
        silenced = run(
            "alerting",
            "silence",
            "--rule=rack-overheating",
            "--subject=rack-2",
            "--for=2h",
            env=topics.env,
        )
        assert silenced.stdout.startswith(
            "Silenced rack-overheating of rack-2 for 2h00m, until 2"
        ), silenced.stderr
        both = {"rack-1": "acknowledged", "rack-2": "silenced"}
        eventually(lambda: (listed(first), listed(second)), equal_to((both, both)))
        again = run("alerting", "ack", alert_id, second, env=topics.env)
        assert again.stdout == "rack-overheating of rack-1 is already acknowledged by ada.\n"
        kill(one)
    assert len(topics.read_all(ALERT_COMMANDS)) == 2

    run("alerting", "unsilence", "--rule=rack-overheating", "--subject=rack-2", env=topics.env)
    last_id = fire(topics, 3, state="NORMAL")
    assert run("alerting", "run", first, "--idle-exit=1", env=topics.env).returncode == 0
    assert listed(first) == {"rack-2": "firing"}
    late = run("alerting", "ack", last_id[:8], first, env=topics.env)
    assert late.returncode == 1
    assert late.stderr.startswith("alerting: rack-overheating of rack-1 was resolved at ")

    fire(topics, 4)
    assert run("alerting", "run", first, "--idle-exit=1", env=topics.env).returncode == 0
    assert listed(first) == {"rack-1": "firing", "rack-2": "firing"}
    shown = run("alerting", "history", first, "--subject=rack-1").stdout
    assert [line.split()[1] for line in shown.splitlines()[1:]] == ["firing", "resolved"]


def test_show_prints_evidence_and_notices(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    database = f"--database={tmp_path / 'db'}"
    reading = {
        "event_id": "e-7",
        "sequence": 7,
        "event_time": "2026-11-21T06:26:00.000Z",
        "temperature_c": 101.5,
    }
    alert_id = fire(topics, 1, evidence=[reading])
    env = topics.env | {"ALERTING_WEBHOOK_URL": receiver.url}
    done = run("alerting", "run", database, "--idle-exit=1", *AT_ONCE, env=env)
    assert "alerting: Notices go to webhook." in done.stderr
    assert "to webhook: site-1: 1 firing (highest open severity: error)" in done.stderr
    assert done.stdout.count("\n") == 1
    shown = run("alerting", "show", alert_id[:6], database).stdout
    assert f"ID        {alert_id}" in shown and "state     firing" in shown
    assert "sequence 7  101.50 °C  event e-7" in shown
    assert "firing  webhook: delivered" in shown
    story = msgspec.json.decode(run("alerting", "show", alert_id, database, "--json").stdout)
    assert story["alerts"][0]["evidence"] == [reading]
    assert len(receiver.received) == 1


def test_a_failing_channel_delays_neither_the_log_nor_other_channels_and_loses_nothing(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    path, output = tmp_path / "db", tmp_path / "output"
    env = topics.env | {
        "ALERTING_WEBHOOK_URL": f"http://127.0.0.1:{free_port()}/",
        "ALERTING_PAGERDUTY_KEY": "key-1",
        "ALERTING_PAGERDUTY_URL": receiver.url,
    }
    command = ("alerting", "run", f"--database={path}", *AT_ONCE, "--max-attempts=5")
    dead = path.with_name("db.dead-letters.jsonl")
    with program(*command, env=env, output=output) as process:
        for number in range(1, 4):
            fire(topics, number, f"rack-{number}", site_id=f"site-{number}")
            eventually(lambda: len(delivered(path)), equal_to(number))
        kill(process)  # the webhook's notices stay in the outbox
    assert output.read_text().count('"alert_id"') == 3
    with program(*command, env=env, output=output) as process:
        dead_letters = eventually(
            lambda: dead.read_bytes().splitlines() if dead.exists() else [],
            lambda found: len(found) == 3,
        )
        eventually(output.read_text, lambda text: text.count("in 5 attempts") == 3)
        assert kill(process, signal.SIGTERM) == 0
    notices = [json.loads(line)["notice"] for line in dead_letters]
    assert [notice["site_id"] for notice in notices] == ["site-1", "site-2", "site-3"]
    assert [event["payload"]["source"] for event in receiver.received] == [
        "site-1",
        "site-2",
        "site-3",
    ]
    assert f"127.0.0.1:{env['ALERTING_WEBHOOK_URL'].split(':')[2]}" not in output.read_text()


def test_kills_at_any_moment_neither_lose_nor_duplicate_a_notice(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    output, folder, racks = tmp_path / "output", tmp_path / "alerting", 300
    folder.mkdir()
    command = ("alerting", "run", f"--database={folder / 'db'}", *AT_ONCE, "--flap-changes=0")
    env = topics.env | {"ALERTING_WEBHOOK_URL": receiver.url}

    def received(first: int = 0) -> list[tuple[str, str]]:
        """Return subject and notice id of the alerts received, from a request on."""
        return [
            (alert["labels"]["subject"], alert["annotations"]["notice_id"])
            for alerts in receiver.received[first:]
            for alert in alerts
        ]

    def subjects() -> set[str]:
        return {subject for subject, _ in received()}

    topics.send(
        ALERTS,
        [
            (
                f"rack-{n}",
                encode(
                    new_alert(n, T0 + n, f"rack-{n}", "WARNING", "error", site_id=f"site-{n % 60}")
                ),
            )
            for n in range(racks)
        ],
    )
    done_at_kills: list[tuple[int, set[str]]] = []
    for wanted in (0, 30, 90, 150):
        with program(*command, env=env, output=output) as process:
            eventually(lambda: len(subjects()), above(wanted), every_s=0.001)
            kill(process)
        # A copy, since whoever first opens a database after a kill repairs it.
        copy = shutil.copytree(folder, tmp_path / f"killed-{wanted}")
        done_at_kills.append((len(receiver.received), delivered(copy / "db")))
    with program(*command, env=env, output=output):
        eventually(lambda: len(subjects()), equal_to(racks))
    assert len(set(received())) == racks, "a notice sent again has the same id"
    for requests, done in done_at_kills:
        again = done & {notice_id for _, notice_id in received(requests)}
        assert not again, f"notices that were delivered before the kill at request {requests}"
    assert done, "notices were delivered before the last kill"


def test_a_storm_is_logged_completely_with_at_most_two_notices_per_site(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    racks, rounds, sites = 1000, 10, 20
    log_file = tmp_path / "alerts.jsonl"
    begin_ms = now_ms() - 60_000
    storm = [
        new_alert(
            turn * racks + rack,
            begin_ms + turn * 6000 + rack,
            f"rack-{rack:04d}",
            "NORMAL" if turn % 2 else "WARNING",
            "info" if turn % 2 else "error",
            site_id=f"site-{rack % sites}",
        )
        for turn in range(rounds)
        for rack in range(racks)
    ]
    topics.send(ALERTS, [(alert.subject, encode(alert)) for alert in storm])
    command = (
        "alerting",
        "run",
        f"--database={tmp_path / 'db'}",
        f"--log-file={log_file}",
        "--group-wait=1",
    )
    done = run(*command, "--idle-exit=3", env=topics.env | {"ALERTING_WEBHOOK_URL": receiver.url})
    assert done.returncode == 0, done.stderr
    logged = [json.loads(line)["alert_id"] for line in log_file.read_bytes().splitlines()]
    assert sorted(logged) == sorted(alert.alert_id for alert in storm)
    notices = Counter(alerts[0]["labels"]["site_id"] for alerts in receiver.received)
    assert set(notices) == {f"site-{site}" for site in range(sites)} and max(notices.values()) <= 2
    assert {each["labels"]["subject"] for alerts in receiver.received for each in alerts} == {
        alert.subject for alert in storm
    }


def test_after_a_restart_incidents_resolved_in_the_backlog_are_not_notified_as_open(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", "--idle-exit=1", *AT_ONCE)
    env = topics.env | {"ALERTING_WEBHOOK_URL": receiver.url}
    fire(topics, 1)
    assert run(*command, env=env).returncode == 0
    with closing(sqlite3.connect(tmp_path / "db")) as db:
        db.execute(
            "UPDATE site_schedule SET next_check_ms = 1"
        )  # as if the process had been down for hours
        db.commit()
    fire(topics, 2, state="NORMAL")
    assert run(*command, "--remind-after=0.001", env=env).returncode == 0
    firing, resolved = (alerts[0] for alerts in receiver.received)
    assert firing["endsAt"] > resolved["endsAt"]


def test_an_unwritable_dead_letter_file_ends_in_a_sentence_and_keeps_the_notice(
    topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    env = topics.env | {
        "ALERTING_WEBHOOK_URL": f"http://127.0.0.1:{free_port()}/",
        "ALERTING_DEAD_LETTERS": str(tmp_path / "file" / "dead"),
    }
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", *AT_ONCE, "--max-attempts=1")
    fire(topics, 1)
    done = run(*command, env=env)
    assert done.returncode == 1
    assert "could not be written" in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert (
        run(*command, "--idle-exit=1", env=env | {"ALERTING_WEBHOOK_URL": receiver.url}).returncode
        == 0
    )
    assert len(receiver.received) == 1


def test_an_unknown_id_ends_in_a_sentence(topics: Kafka, tmp_path: Path) -> None:
    database = f"--database={tmp_path / 'db'}"
    fire(topics, 1)
    run("alerting", "run", database, "--idle-exit=1", env=topics.env)
    done = run("alerting", "ack", "zzz", database, env=topics.env)
    assert (done.returncode, done.stderr) == (
        1,
        "alerting: no incident has an alert with the ID 'zzz': `python -m alerting list` shows the "
        "open ones.\n",
    )


def test_a_command_without_a_broker_ends_in_a_sentence() -> None:
    arguments = ["silence", "--rule=lost-signal", "--subject=rack-1", "--for=1h"]
    done = run_without_a_broker("alerting.cli.commands.SEND_SECONDS", *arguments)
    assert done.returncode == 1
    assert (
        done.stderr.startswith("alerting: the broker at localhost:")
        and done.stderr.count("\n") == 1
    )
