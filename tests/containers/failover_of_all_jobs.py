"""Check that no job loses anything when the master, a worker or one of three brokers dies.

`make failover` runs this file; no tier of the tests does, as it takes half an hour. The demo's
faults are sent beside the clickstream, at a rate that all jobs hold on two processors.
FAILOVER_RATE sets another one.
"""

import json
import os

import pytest

from demo.comparison import Row
from events.times import now_ms, to_ms
from tests.containers.stack import BROKER, MASTER, THREE_BROKERS, WORKER, Stack, offered
from tests.support import above, eventually

pytestmark = pytest.mark.timeout(1500)

RATE = int(os.environ.get("FAILOVER_RATE", "300"))
LOOK_S = 180
DUE_AFTER_THE_KILL = 100
REPLACED_BY_THE_CLUSTER = ("real-time", "micro-batch", "closed-windows")
DRIVERS_OF_THE_CLUSTER = ("cluster-real-time", "cluster-micro-batch")
FASTER = "tests/containers/failover_of_all_jobs.yml"


@pytest.fixture(autouse=True)
def rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOAD_RATE", str(offered(RATE)))


def show_lags(stack: Stack, micro_batch: str) -> None:
    """Look for three minutes at how far the queries in micro-batches are behind the load.

    The lag grows while a batch runs. The least lag of each half shows whether it grows on.
    """
    looks: list[list[Row]] = []

    def look() -> int:
        looks.append(stack.drivers(micro_batch))
        return now_ms()

    eventually(look, above(now_ms() + 1000 * LOOK_S), timeout_s=LOOK_S + 60, every_s=10)
    shown = ", ".join(
        f"{name} {min(lags[: len(lags) // 2 + 1]):.0f} and {min(lags[len(lags) // 2 :]):.0f}"
        for name, lags in seconds_behind(looks).items()
    )
    print(f"\nseconds behind {offered(RATE)} readings/s: {shown}")  # noqa: T201 - the figures of this run


def seconds_behind(looks: list[list[Row]]) -> dict[str, list[float]]:
    """Return by the drivers' statuses how far each query that reads the load was behind it."""
    first, last = (
        {name: topic["end_offset"] for driver in look for name, topic in driver["topics"].items()}
        for look in (looks[0], looks[-1])
    )
    per_s = {name: (end - first.get(name, end)) / LOOK_S for name, end in last.items()}
    lags: dict[str, list[float]] = {}
    for query in (query for look in looks for driver in look for query in driver["queries"]):
        rate = sum(per_s[name] for name in query["topics"])
        if rate > RATE / 2 and "records_behind" in query:
            lags.setdefault(query["name"], []).append(query["records_behind"] / rate)
    return lags


def assert_nothing_is_lost(stack: Stack, killed: str, micro_batch: str) -> None:
    """Kill a container under load, wait for alerts that are due after that, and compare all."""
    stack.await_history()
    stack.await_alerts(bool, timeout_s=120)
    show_lags(stack, micro_batch)
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
    assert_nothing_is_lost(stack, killed, "cluster-micro-batch")


@pytest.mark.profiles("brokers", also=FASTER)
def test_all_jobs_lose_nothing_when_a_broker_dies(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in THREE_BROKERS.items():
        monkeypatch.setenv(name, value)
    stack.up(without=("kafka",))
    assert_nothing_is_lost(stack, BROKER, "micro-batch")
