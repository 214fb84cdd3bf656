"""Check that no job loses anything when the master, a worker or one of three brokers dies.

`make failover` runs this file; no tier of the tests does, as it takes a quarter of an hour. The
demo's faults are sent at 300 events a second and more, beside the clickstream.
"""

import json

import pytest

from demo.comparison import Row
from events.times import now_ms, to_ms
from tests.containers.stack import BROKER, MASTER, THREE_BROKERS, WORKER, Stack

pytestmark = pytest.mark.timeout(1500)

RATE = 300
DUE_AFTER_THE_KILL = 100
REPLACED_BY_THE_CLUSTER = ("real-time", "micro-batch", "closed-windows")
DRIVERS_OF_THE_CLUSTER = ("cluster-real-time", "cluster-micro-batch")
FASTER = "tests/containers/failover_of_all_jobs.yml"


def assert_nothing_is_lost(stack: Stack, killed: str) -> None:
    """Kill a container under load, wait for alerts that are due after that, and compare all."""
    stack.await_history()
    stack.await_alerts(bool, timeout_s=120)
    if killed == WORKER:
        running = stack.applications_on(WORKER)
        assert len(running) == len(DRIVERS_OF_THE_CLUSTER), "each driver loses an executor"
    killed_ms = now_ms()

    def due_after_the_kill(alerts: list[Row]) -> int:
        return sum(to_ms(alert["event_time"]) > killed_ms for alert in alerts)

    stack.command("kill", "--signal", "KILL", killed)
    stack.await_alerts(lambda seen: due_after_the_kill(seen) >= DUE_AFTER_THE_KILL, timeout_s=600)
    assert stack.inspect(killed)[0]["State"]["Status"] == "exited"
    stack.start(killed)
    status, verdict = stack.verdict()
    said = stack.command("logs", "--no-log-prefix", "producer").splitlines()[-1]
    summary = json.loads(said[said.index("{") :])  # after what clears the status line
    after = due_after_the_kill(stack.alerts())
    print(f"\n{after} alerts due after the kill of {killed}; {summary}\n{verdict}")  # noqa: T201 - the figures of this run
    assert status == 0
    assert summary["records_per_second"] >= RATE


@pytest.mark.profiles("cluster", also=FASTER)
@pytest.mark.parametrize("killed", [WORKER, MASTER])
def test_all_jobs_lose_nothing_when_a_worker_or_the_master_dies(stack: Stack, killed: str) -> None:
    stack.up(without=REPLACED_BY_THE_CLUSTER)
    assert_nothing_is_lost(stack, killed)


@pytest.mark.profiles("brokers", also=FASTER)
def test_all_jobs_lose_nothing_when_a_broker_dies(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in THREE_BROKERS.items():
        monkeypatch.setenv(name, value)
    stack.up(without=("kafka",))
    assert_nothing_is_lost(stack, BROKER)
