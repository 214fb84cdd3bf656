"""The metrics of running programs on a real broker: what happens there shows in a scrape."""

import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from events.catalog import RACK_OVERHEATING
from events.metrics import serve_metrics
from events.records import encode
from events.times import to_ms
from events.topics import ALERTS, USER_ACTIONS
from tests.builders import action, alert_value
from tests.support import Kafka, eventually, free_port, program, run
from tests.unit.metrics import Scrape, scrape
from tests.unit.test_alerting_channels import Receiver, serving

JOB = "user_totals"
SCRAPES = 200
SCRAPE_INTERVAL_S = 1.0
MAX_COST = 0.02
"""The most processor time of metrics, as a share of that of the jobs."""


def value(port: int, name: str, **labels: str) -> float | None:
    """Return a value, or None while the program does not serve it."""
    with suppress(OSError):
        return scrape(port)(name, **labels)
    return None


def await_value(expected: float, port: int, name: str, **labels: str) -> Scrape:
    """Wait for a value, and return a scrape that has it."""
    eventually(lambda: value(port, name, **labels), lambda found: found == expected, timeout_s=120)
    return scrape(port)


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
    assert 0 <= (found("producer_behind_schedule_seconds") or 0) < 10
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


@pytest.mark.full
def test_a_driver_counts_its_batches_at_little_cost(topics: Kafka, tmp_path: Path) -> None:
    port = free_port()
    command = ("spark_jobs", "run", JOB, "--no-dead-letters", f"--metrics-port={port}")
    query = {"query": JOB}

    def act(first: int, count: int) -> None:
        numbers = range(first, first + count)
        topics.send(USER_ACTIONS, [("user", encode(action(f"a{n}"))) for n in numbers])

    act(0, 40)
    root = f"--checkpoint-root={tmp_path / 'checkpoints'}"
    with program(*command, root, env=topics.env, output=tmp_path / "output") as process:
        first = await_value(40, port, "query_input_rows_total", **query)
        act(40, 5)
        second = await_value(45, port, "query_input_rows_total", **query)
        jobs_s = processor_share(process.pid, topics)
        driver = psutil.Process(process.pid)
        before_s = sum(driver.cpu_times()[:2])
        for _ in range(SCRAPES):
            scrape(port)
        scrape_s = (sum(driver.cpu_times()[:2]) - before_s) / SCRAPES
    batch = "query_batch_duration_seconds"
    assert (second(f"{batch}_count", **query) or 0) > (first(f"{batch}_count", **query) or 0) > 0
    phases_s = sum(
        one.value
        for one in second.samples
        if one.name == "rackstream_query_batch_phase_duration_seconds_sum"
    )
    assert 0 < phases_s <= (second(f"{batch}_sum", **query) or 0)
    assert second("query_active", **query) == 1
    assert second("query_restarts_total", **query) == 0
    cost = scrape_s / SCRAPE_INTERVAL_S / jobs_s
    print(  # noqa: T201 - for `-s`
        f"{1000 * scrape_s:.1f} ms of processor time for a scrape; every {SCRAPE_INTERVAL_S:g} s "
        f"that is {cost:.2%} of the {jobs_s:.2f} processors that the jobs use"
    )
    assert cost < MAX_COST


def processor_share(pid: int, topics: Kafka) -> float:
    """Return how many processors a driver uses, its JVM included, while 200 actions/s arrive."""
    driver = psutil.Process(pid)

    def used_s() -> float:
        return sum(sum(one.cpu_times()[:2]) for one in (driver, *driver.children(recursive=True)))

    before_s, start_s = used_s(), time.monotonic()
    done = run("producer", "run", "--streams=actions", "--rate=200", "--duration=5", env=topics.env)
    assert done.returncode == 0, done.stderr
    return (used_s() - before_s) / (time.monotonic() - start_s)
