"""The metrics of running programs on a real broker: what happens there shows in a scrape."""

from pathlib import Path

import pytest

from broker.server import free_port
from events.catalog import RACK_OVERHEATING
from events.metrics import serve_metrics
from events.times import to_ms
from events.topics import ALERTS
from tests.builders import alert_value
from tests.support import Kafka, eventually, program, run
from tests.unit.metrics import await_value, scrape, value
from tests.unit.test_alerting_channels import Receiver, serving

JOB = "user_totals"


def test_alerting_measures_what_it_reads_and_sends(topics: Kafka, tmp_path: Path) -> None:
    port = free_port()
    command = ("alerting", "run", f"--database={tmp_path / 'db'}", "--group-wait=0s")
    env = topics.env | {"METRICS_PORT": str(port)}
    with serving(Receiver()) as receiver:
        env["ALERTING_WEBHOOK_URL"] = receiver.url
        with program(*command, env=env, output=tmp_path / "output"):
            first = await_value(0, port, "alerting_alerts_received_total")
            assert first("alert_event_to_append_seconds_count", rule=RACK_OVERHEATING) == 0
            numbers = [1, 2, 2]
            topics.send(ALERTS, [("rack", alert_value(number)) for number in numbers])
            topics.send(ALERTS, [("rack", b"not JSON")])
            await_value(1, port, "alerting_malformed_records_total")
            delivered = {"channel": "webhook", "result": "delivered"}
            found = await_value(1, port, "alerting_notifications_total", **delivered)
    assert found("alerting_alerts_received_total") == 3
    assert found("alerting_repeats_removed_total") == 1
    assert found("alerting_open_incidents", rule=RACK_OVERHEATING) == 2
    assert len(receiver.received) == 1, "both are about one site"
    appended = [one.timestamp_ms for one in topics.read_all(ALERTS)[:2]]
    latency_s = sum(ms - to_ms("2026-11-21T06:26:00.123Z") for ms in appended) / 1000
    latency = "alert_event_to_append_seconds"
    assert found(f"{latency}_count", rule=RACK_OVERHEATING) == 2
    assert found(f"{latency}_sum", rule=RACK_OVERHEATING) == pytest.approx(latency_s, abs=1e-6)


def test_a_producer_counts_what_it_sends(topics: Kafka, tmp_path: Path) -> None:
    port = free_port()
    command = ("producer", "run", "--rate=2000", f"--metrics-port={port}")
    with program(*command, env=topics.env, output=tmp_path / "output"):
        sent = "producer_records_sent_total"
        first = eventually(lambda: value(port, sent), lambda found: (found or 0) > 0)
        second = eventually(lambda: value(port, sent), lambda found: (found or 0) > (first or 0))
        found = scrape(port)
    assert second is not None and second % 1 == 0
    behind_s = found("producer_behind_schedule_seconds")
    assert behind_s is not None and 0 <= behind_s < 10
    assert found("producer_records_failed_total") == 0


@pytest.mark.parametrize("command", ["producer run --count=1", f"spark_jobs run {JOB}"])
def test_a_port_that_is_taken_ends_a_program_before_it_begins(
    topics: Kafka, tmp_path: Path, command: str
) -> None:
    port, env = free_port(), topics.env | {"RACKSTREAM_HOME": str(tmp_path)}
    with serve_metrics(port, []):
        done = run(*command.split(), f"--metrics-port={port}", env=env)
    name = command.split()[0]
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{name}: port {port} for metrics is in use: " in done.stderr
    assert "Traceback" not in done.stderr and "starting Spark" not in done.stderr
