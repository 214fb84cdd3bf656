"""What is lost when a Spark worker, or one of three brokers, dies under load? Nothing may be.

Readings of 400 racks are sent at 2,000 a second, 40 racks cross their threshold as often as can be. FAILOVER_SECONDS
is for how long: short by default, 60 by `make failover`.
"""

import json
import os
from collections.abc import Callable

import pytest

from events.times import now_ms, to_ms
from tests.containers.stack import Stack
from tests.support import eventually

SECONDS = int(os.environ.get("FAILOVER_SECONDS", "20"))
RATE = 2000
DUE_AFTER_THE_KILL = 100


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what the load is, for the Compose file."""
    monkeypatch.setenv("SCENARIO", "producer/scenarios/load.yaml")
    monkeypatch.setenv("LOAD_RATE", str(RATE))
    monkeypatch.setenv("LOAD_SECONDS", str(SECONDS))


def nothing_is_lost(stack: Stack, kill: Callable[[], None]) -> None:
    """Put the load on what runs, kill while alerts come, and hold the alerts against the truth."""
    stack.start("load")
    stack.await_alerts(lambda seen: len(seen) > 50, timeout_s=120)
    killed_ms = now_ms()
    seen_before = len(stack.alerts())
    kill()
    ended = eventually(
        lambda: stack.inspect("load")["State"],
        lambda state: state["Status"] == "exited",
        timeout_s=SECONDS + 180,
        every_s=1,
    )
    said = stack.command("logs", "--no-log-prefix", "load")
    assert ended["ExitCode"] == 0, said[-2000:]
    summary = json.loads(said[said.rindex("{\"") :].splitlines()[0])
    truth = stack.truth("load")
    after = sum(to_ms(row["event_time"]) > killed_ms for row in truth.alerts)
    verdict = stack.compared(truth, timeout_s=180)
    print(  # noqa: T201 - the figures of docs/scaling.md
        f"\n{summary['sent']:,} records in {summary['seconds']:.1f} s; {verdict.expected} alerts due, "
        f"{after} of them after the kill ({seen_before} were seen before); "
        f"{len(verdict.missing)} missing, {len(verdict.wrong)} wrong"
    )
    assert summary["failed"] == 0
    assert summary["sent"] >= RATE * SECONDS
    assert after >= DUE_AFTER_THE_KILL
    assert (verdict.missing, verdict.wrong) == ([], [])


def test_a_worker_killed_under_load_loses_nothing(stack: Stack, load: None) -> None:  # noqa: ARG001
    stack.up("alerting", "cluster-realtime")
    nothing_is_lost(stack, lambda: stack.kill("spark-worker-1"))
    assert stack.inspect("cluster-realtime")["State"]["Running"]


def test_a_broker_killed_under_load_loses_nothing(
    stack: Stack, load: None, monkeypatch: pytest.MonkeyPatch  # noqa: ARG001
) -> None:
    brokers = ["kafka-1", "kafka-2", "kafka-3"]
    monkeypatch.setenv("STACK_KAFKA_SERVERS", ",".join(f"{name}:9092" for name in brokers))
    monkeypatch.setenv("STACK_REPLICATION", "3")
    stack.up(*brokers, "alerting", "realtime")

    def kill_and_go_on_without() -> None:
        stack.command("kill", "--signal", "KILL", "kafka-1")  # whom a person kills stays away
        before = len(stack.alerts())
        stack.await_alerts(lambda seen: len(seen) > before + 20, timeout_s=120)
        assert stack.inspect("kafka-1")["State"]["Status"] == "exited"
        stack.start("kafka-1")

    nothing_is_lost(stack, kill_and_go_on_without)
