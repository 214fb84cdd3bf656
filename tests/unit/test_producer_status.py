"""The producer's status, and how far it may be behind its schedule."""

from pathlib import Path

import pytest

from events.status_file import Process, own_file, write_status
from events.times import now_ms, to_text
from producer.status import PROGRAM, StatusRecorder, problems
from tests.support import run
from tests.unit.statuses import T0, Publisher


class Bench:
    """A recorder with a clock that the test moves."""

    def __init__(self, start_ms: int = T0) -> None:
        self.ms = start_ms
        self.publisher = Publisher()
        process = Process(PROGRAM, "", to_text(start_ms))
        self.recorder = StatusRecorder(process, "kafka:9092", self.publisher, lambda: self.ms)

    def after(
        self, seconds: float, *, sent: int = 0, acknowledged: int = 0, failed: int = 0
    ) -> list[str]:
        """Return the problems after some seconds in each of which this happened to records."""
        for _ in range(round(seconds)):
            self.ms += 1000
            self.publisher.sent += sent
            self.publisher.acknowledged += acknowledged
            self.publisher.failed += failed
            status = self.recorder.snapshot()
        return problems(status, self.ms)


def test_a_producer_on_schedule_is_healthy_even_while_it_sends_nothing() -> None:
    on = Bench()
    on.recorder.on_lag(0.1)
    assert on.after(5, sent=3, acknowledged=3) == []
    on.recorder.on_lag(0.1)
    assert on.after(1) == []
    status = on.recorder.snapshot()
    assert (status.sent, status.acknowledged, status.unacknowledged) == (15, 15, 0)
    assert status.behind_schedule_s == 0.1


def test_a_producer_may_be_ten_seconds_behind() -> None:
    on = Bench()
    on.recorder.on_lag(9.9)
    assert on.after(1) == []
    on.recorder.on_lag(10.1)
    assert on.after(1) == [
        "the producer is 10 s behind its schedule: lower its rate, or see what holds up the broker."
    ]


def test_a_run_that_is_held_up_falls_behind_as_time_goes() -> None:
    on = Bench()
    on.recorder.on_lag(0.5)
    assert on.after(9) == []
    assert len(on.after(2)) == 1
    assert on.recorder.snapshot().behind_schedule_s == 11.5


def test_a_run_that_has_sent_everything_is_no_longer_behind() -> None:
    on = Bench()
    on.recorder.on_lag(0.5)
    on.recorder.on_schedule_end()
    assert on.after(20) == []


def test_a_run_at_the_highest_rate_has_no_schedule() -> None:
    on = Bench()
    assert on.after(60, sent=1, acknowledged=1) == []
    assert on.recorder.snapshot().behind_schedule_s is None


def test_a_broker_that_acknowledges_nothing_is_away_since_its_last_answer() -> None:
    on = Bench()
    on.after(10, sent=2, acknowledged=2)
    assert on.after(30, sent=1) == []
    assert not on.recorder.snapshot().broker.reachable
    assert on.after(1, sent=1) == [
        "the broker at kafka:9092 has not answered for 31 s: see whether it runs."
    ]
    assert on.after(1, acknowledged=1) == []
    assert on.recorder.snapshot().broker.reachable


def test_failed_records_are_no_answer() -> None:
    on = Bench()
    on.after(3, sent=1)
    on.publisher.failed = 1
    assert len(on.after(40)) == 1


def test_a_producer_that_sends_nothing_after_a_failure_is_healthy() -> None:
    on = Bench()
    on.after(10, sent=1, acknowledged=1)
    on.after(1, sent=1, failed=1)
    assert on.after(31) == []


def test_a_producer_whose_every_record_fails_is_unhealthy_until_one_is_acknowledged() -> None:
    on = Bench()
    on.publisher.last_error = "Broker: Unknown topic or partition"
    on.after(10, sent=2, acknowledged=2)
    assert on.after(31, sent=2, failed=2) == []
    assert on.after(1, sent=2, failed=2) == [
        "the broker at kafka:9092 has accepted no record for 31 s (Broker: Unknown topic or "
        "partition): see whether the topics exist."
    ]
    assert on.recorder.snapshot().broker.reachable
    assert on.after(1, sent=2, acknowledged=1, failed=1) == []


def test_a_producer_some_of_whose_records_fail_is_healthy() -> None:
    on = Bench()
    assert on.after(60, sent=2, acknowledged=1, failed=1) == []


@pytest.mark.parametrize("lag_s", [0.2, 99.0])
def test_health_is_one_line_and_an_exit_status(tmp_path: Path, lag_s: float) -> None:
    on = Bench(now_ms())
    on.recorder.on_lag(lag_s)
    write_status(own_file(tmp_path, PROGRAM), on.recorder.snapshot())
    done = run("producer", "health", env={"RACKSTREAM_HOME": str(tmp_path)})
    if lag_s < 1:
        line = "healthy: 0 records sent, 0 failed, 0.2 s behind schedule\n"
        assert (done.returncode, done.stdout, done.stderr) == (0, line, "")
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("producer: the producer is 99 s behind its schedule: ")


def test_without_a_producer_health_says_what_to_do(tmp_path: Path) -> None:
    done = run("producer", "health", env={"RACKSTREAM_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("producer: no producer runs: ")
