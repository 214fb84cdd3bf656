"""When an alerting process is healthy, and the sentence about each reason why it is not."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from alerting.status import StatusRecorder
from events.alerting_health import incidents_as_of, problems
from events.alerting_status import PROGRAM, AlertingStatus
from events.status_file import own_file, write_status
from events.times import now_ms, to_ms, to_text
from tests.support import run


@pytest.fixture
def recorder(tmp_path: Path) -> StatusRecorder:
    """Return the recorder of this process, whose broker answers."""
    found = StatusRecorder("broker:9092", "", tmp_path / "db")
    found.broker_answers(True)
    return found


def problems_after(status: AlertingStatus, seconds: float) -> str:
    """Return what is wrong when a new status has not changed after so many seconds."""
    status.broker.since = status.written_time
    status.last_cycle_time = max(status.last_cycle_time, status.written_time)
    if status.unpublished_since:
        status.unpublished_since = status.written_time
    at_ms = to_ms(status.written_time) + round(1000 * seconds)
    status.written_time = to_text(at_ms)
    return " ".join(problems(status, at_ms))


def test_a_process_that_works_has_no_problems(recorder: StatusRecorder) -> None:
    recorder.cycle(7, 1, 0)
    recorder.published(True)
    status = recorder.snapshot()
    assert problems_after(status, 60) == ""
    assert (status.alerts, status.repeats, status.malformed) == (7, 1, 0)


def test_a_status_older_than_10_s_is_a_problem(recorder: StatusRecorder) -> None:
    status = recorder.snapshot()
    written_ms = to_ms(status.written_time)
    assert problems(status, written_ms + 10_000) == []
    assert problems(status, written_ms + 10_001) == [
        f"process {os.getpid()} hangs or was killed: its status is 10 s old; start it again."
    ]


def test_a_broker_that_is_away_for_30_s_is_a_problem(recorder: StatusRecorder) -> None:
    recorder.broker_answers(False)
    first = recorder.snapshot().broker.since
    recorder.broker_answers(False)
    assert recorder.snapshot().broker.since == first
    assert problems_after(recorder.snapshot(), 29) == ""
    assert problems_after(recorder.snapshot(), 31) == (
        "the broker at broker:9092 has not answered for 31 s: see whether it runs."
    )


def test_a_missing_topic_is_a_problem_of_its_own(recorder: StatusRecorder) -> None:
    recorder.broker_answers(True, "alerts")
    since = recorder.snapshot().missing_since
    create = "no longer exists on broker:9092: create the topics with `python -m broker topics`"
    assert problems_after(recorder.snapshot(), 1) == (
        f"the topic alerts {create}, then start alerting with a new database."
    )
    recorder.broker_answers(True, "alerts")
    later = replace(recorder.snapshot(), last_cycle_time=to_text(now_ms() + 5000))
    assert incidents_as_of(later) == since
    recorder.broker_answers(True, "x-incidents")
    assert problems_after(recorder.snapshot(), 1) == f"the topic x-incidents {create}."
    recorder.broker_answers(True)
    assert recorder.snapshot().missing_since is None
    assert problems_after(recorder.snapshot(), 1) == ""


def test_a_main_loop_that_hangs_for_a_minute_is_a_problem(recorder: StatusRecorder) -> None:
    recorder.cycle(0, 0, 0)
    assert problems_after(recorder.snapshot(), 59) == ""
    assert "has read no records for 61 s" in problems_after(recorder.snapshot(), 61)


def test_incidents_that_wait_a_minute_for_their_publication_are_a_problem(
    recorder: StatusRecorder,
) -> None:
    recorder.published(False)
    since = recorder.snapshot().unpublished_since
    recorder.published(False)
    status = recorder.snapshot()
    assert status.unpublished_since == since is not None
    status.last_cycle_time = to_text(now_ms() + 61_000)
    assert "could not publish incidents for 61 s" in problems_after(status, 61)
    recorder.published(True)
    assert recorder.snapshot().unpublished_since is None


def test_health_exits_with_0_or_with_1_and_a_sentence(
    recorder: StatusRecorder, tmp_path: Path
) -> None:
    env = {"RACKSTREAM_HOME": str(tmp_path), "ALERTING_DATABASE": str(tmp_path / "db")}
    file = own_file(tmp_path, PROGRAM)

    missing = run("alerting", "health", env=env)
    assert missing.returncode == 1
    assert missing.stderr.startswith("alerting: no alerting process of this host has the database")

    status = recorder.snapshot()
    write_status(file, status)
    healthy = run("alerting", "health", env=env)
    assert (healthy.returncode, healthy.stderr) == (0, "")
    assert healthy.stdout == f"healthy: process {os.getpid()} has read 0 alerts\n"
    by_option = run("alerting", "health", f"--database={tmp_path / 'db'}", env=env)
    assert by_option.returncode == 0
    other = run("alerting", "health", f"--database={tmp_path / 'other'}", env=env)
    assert other.returncode == 1

    status.error = "the disk is full."
    write_status(file, status)
    ended = run("alerting", "health", env=env)
    assert ended.returncode == 1
    assert ended.stderr == f"alerting: process {os.getpid()} has ended: the disk is full.\n"

    file.write_bytes(file.read_bytes()[:20])
    damaged = run("alerting", "health", env=env)
    assert damaged.returncode == 1
    assert "is cut off or damaged" in damaged.stderr and damaged.stderr.count("\n") == 1
