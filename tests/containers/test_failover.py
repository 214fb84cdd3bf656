"""What is lost when a Spark worker, or one of three brokers, dies under load? Nothing may be.

Readings of 400 racks are sent, of which 40 cross their threshold as often as can be, and 10 have a
weak signal again and again.

- `make failover` (FAILOVER_SECONDS) kills the worker and the broker in separate runs, and has at
  least 2,000 readings a second for 60 seconds after the kill.
- The short form kills one after the other in one stack, where one rule runs in Real-time Mode and
  one in micro-batches. First it kills the master, too. It sends less, for the stack leaves two
  cores nothing to spare.
"""

import os
from collections import Counter
from collections.abc import Iterable

import pytest

from demo.comparison import Row
from events.catalog import RACK_OVERHEATING, WEAK_SIGNAL
from events.times import now_ms, to_ms
from tests.containers.stack import BROKER, MASTER, THREE_BROKERS, WORKER, Stack, offered
from tests.support import above, eventually

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.timeout(1200)]

SECONDS = int(os.environ.get("FAILOVER_SECONDS", "10"))
LONG = SECONDS >= 60
RATE, DUE_AFTER_THE_KILL, PATIENCE_S = (2000, 100, 120) if LONG else (300, 5, 300)
SEPARATE_RUNS = [
    pytest.param((WORKER,), marks=pytest.mark.profiles("cluster", "load")),
    pytest.param((BROKER,), marks=pytest.mark.profiles("brokers", "load")),
]
ONE_RUN = pytest.mark.profiles("cluster", "brokers", "load", also="tests/containers/failover.yml")
RULES = {RACK_OVERHEATING, WEAK_SIGNAL}


@pytest.fixture(autouse=True)
def load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what the load is, for the Compose file: as long as it takes, it is stopped."""
    monkeypatch.setenv("SCENARIO", "producer/scenarios/load.yaml")
    monkeypatch.setenv("LOAD_RATE", str(offered(RATE)))
    monkeypatch.setenv("LOAD_SECONDS", "900")


def due_after(moment_ms: int, alerts: Iterable[Row]) -> Counter[str]:
    """Return how many alerts of each rule readings after a moment have triggered."""
    return Counter(row["rule"] for row in alerts if to_ms(row["event_time"]) > moment_ms)


def await_alerts_after(stack: Stack, moment_ms: int) -> None:
    """Wait until enough alerts of each rule that are due after a moment have been logged."""

    def enough(seen: list[Row]) -> bool:
        due = due_after(moment_ms, seen)
        return all(due[rule] >= DUE_AFTER_THE_KILL for rule in RULES)

    stack.await_alerts(enough, timeout_s=PATIENCE_S)


@pytest.mark.parametrize(
    "killed",
    SEPARATE_RUNS if LONG else [pytest.param((WORKER, BROKER), marks=ONE_RUN)],
    ids=" and ".join,
)
def test_what_is_killed_under_load_loses_nothing(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, killed: tuple[str, ...]
) -> None:
    without: tuple[str, ...] = ()
    if BROKER in killed:
        without = ("kafka",)
        for name, value in THREE_BROKERS.items():
            monkeypatch.setenv(name, value)
    jobs = ["cluster-real-time"] if WORKER in killed else ["real-time"]
    if not LONG:
        jobs.append("cluster-micro-batch")
    # The load continues while alerts come, and is stopped in order. The jobs compile beside it.
    stack.up("alerting", "load", *jobs, without=without)
    if not LONG:
        # The jobs go on, and it knows them when it is back. A driver that registers while it dies
        # starts anew, which takes minutes.
        eventually(stack.applications, lambda found: len(found) == len(jobs), timeout_s=PATIENCE_S)
        stack.kill(MASTER)
    await_alerts_after(stack, now_ms())
    killed_ms = now_ms()
    if WORKER in killed:
        # So that each job loses an executor. After the master's return all may run on either
        # worker. Executors that are being replaced are missing for a moment.
        worker, _ = eventually(
            stack.busiest_worker, lambda found: found[1] == len(jobs), timeout_s=120
        )
        stack.kill(worker)
        await_alerts_after(stack, now_ms())
    if BROKER in killed:
        killed_ms = now_ms()
        stack.command("kill", "--signal", "KILL", BROKER)  # who is killed by name stays away
        await_alerts_after(stack, now_ms())
        assert stack.inspect(BROKER)[0]["State"]["Status"] == "exited"
        stack.start(BROKER)
    eventually(now_ms, above(killed_ms + 1000 * SECONDS), timeout_s=SECONDS + 60)
    stack.command("stop", "--timeout", "90", "load")
    said = stack.command("logs", "--no-log-prefix", "load")
    assert stack.inspect("load")[0]["State"]["ExitCode"] == 0, said[-2000:]

    truth = stack.truth("load")
    after = due_after(killed_ms, truth.alerts)
    verdict = stack.compared(truth, timeout_s=300, rules=RULES)
    summary = truth.summary
    print(  # noqa: T201 - the figures of this run
        f"\n{summary['sent']:,} records in {summary['seconds']:.0f} s, "
        f"{verdict.expected:,} alerts expected, {after.total():,} of them after the kill: "
        f"{len(verdict.missing)} missing, {len(verdict.wrong)} wrong"
    )
    assert summary["failed"] == 0
    assert summary["sent"] >= RATE * SECONDS
    assert summary["records_per_second"] >= RATE
    assert all(after[rule] >= DUE_AFTER_THE_KILL for rule in RULES), after
    assert (verdict.missing, verdict.wrong) == ([], [])
