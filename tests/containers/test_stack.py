"""`docker compose up`: healthy services and the expected alerts, despite kills and a restart."""

import os

import pytest
from kafka import KafkaConsumer, TopicPartition

from events.catalog import RACK_OVERHEATING, WEAK_SIGNAL
from events.times import now_ms
from events.topics import ALERTS, RACK_READINGS
from tests.containers.stack import Stack
from tests.support import equal_to, eventually

pytestmark = [pytest.mark.full, pytest.mark.alone, pytest.mark.timeout(1200)]

# An idle machine needs a minute (docs/cold-start.md); a developer's machine may be busy.
FIRST_ALERT_WITHIN_S = float(os.environ.get("FIRST_ALERT_WITHIN_S", "240"))
ALERTS_OF = (RACK_OVERHEATING, WEAK_SIGNAL)
"""The rules whose alerts the producer's truth has (`truth.yml`): both decide with each reading.

The other rules alert when readings stop, so they go on alerting after the producer has ended.
"""
ONE_SHOTS = {"topic-init", "world"}
PROGRAMS = {"kafka", "producer", "real-time", "micro-batch", "closed-windows", "alerting"}


def record_count(stack: Stack, topic: str, partitions: int) -> int:
    """Return how many records the topic holds."""
    consumer = KafkaConsumer(bootstrap_servers=stack.kafka.bootstrap, enable_auto_commit=False)
    try:
        return int(
            sum(
                consumer.end_offsets([TopicPartition(topic, n) for n in range(partitions)]).values()
            )
        )
    finally:
        consumer.close()


def health(stack: Stack, name: str) -> str:
    """Return the health check's status; a running service without one is healthy."""
    return str(stack.inspect(name)["State"].get("Health", {}).get("Status", "healthy"))


def test_the_stack_logs_every_expected_alert_despite_kills_and_keeps_its_data(
    stack: Stack,
) -> None:
    began_ms = now_ms()
    stack.up()
    stack.await_alerts(lambda seen: len(seen) >= 2, timeout_s=FIRST_ALERT_WITHIN_S, every_s=0.5)
    took_s = (now_ms() - began_ms) / 1000
    print(f"\nfrom docker compose up to the first alerts: {took_s:.1f} s")  # noqa: T201 - for docs/operations.md
    assert took_s <= FIRST_ALERT_WITHIN_S
    for name in PROGRAMS:
        found = stack.inspect(name)
        assert found["State"]["Running"], name
        assert found["HostConfig"]["Memory"] > 0, name
        assert found["Config"]["User"] not in ("", "0", "root"), name
    eventually(
        lambda: {health(stack, name) for name in PROGRAMS}, equal_to({"healthy"}), timeout_s=120
    )
    for name in ONE_SHOTS:
        assert stack.inspect(name)["State"]["ExitCode"] == 0, name

    # Crashed services restart and continue from their state.
    for name in ("real-time", "alerting", "kafka"):
        stack.kill(name)
    after_the_kills = len(stack.alerts())
    stack.await_alerts(lambda seen: len(seen) > after_the_kills + 4, timeout_s=300)
    stack.command("stop", "--timeout", "90", "producer")
    assert stack.inspect("producer")["State"]["ExitCode"] == 0
    truth = stack.truth("producer")
    verdict = stack.compared(truth, timeout_s=300, rules=ALERTS_OF)
    assert (verdict.missing, verdict.wrong) == ([], [])
    assert {row["rule"] for row in truth.alerts} == set(ALERTS_OF)
    assert verdict.expected >= 10
    assert truth.summary["duplicates"] > 0
    assert truth.dead_letters

    # `down` removes the containers and keeps their data.
    logged = {row["alert_id"] for row in stack.alerts(ALERTS_OF)}
    readings = record_count(stack, RACK_READINGS.name, RACK_READINGS.partitions)
    assert readings == truth.summary["acknowledged"]
    stack.command("down", "--timeout", "20")
    assert stack.command("ps", "--all", "--quiet") == ""
    stack.up("kafka", "real-time", "alerting")
    assert record_count(stack, RACK_READINGS.name, RACK_READINGS.partitions) == readings
    assert {row["alert_id"] for row in stack.alerts(ALERTS_OF)} == logged
    # The jobs continue from their checkpoints and decide new readings of the same racks.
    before = record_count(stack, ALERTS.name, ALERTS.partitions)
    stack.start("producer")
    eventually(
        lambda: record_count(stack, ALERTS.name, ALERTS.partitions),
        lambda now: now > before,
        timeout_s=240,
    )
    assert logged <= {row["alert_id"] for row in stack.alerts(ALERTS_OF)}
