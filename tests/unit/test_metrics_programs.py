"""Each metric changes by the right amount when what it counts happens."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alerting.decoding import NewAlert
from alerting.notifications.channels import DeliveryError
from alerting.notifications.delivery import DeliveryWorker, RetryPolicy
from alerting.notifications.outbox import Outbox
from broker.server import free_port
from events.catalog import RACK_OVERHEATING, SILENT_SENSOR
from events.cli import UserFacingError
from events.metrics import serve_metrics
from events.settings import Settings
from events.times import now_ms, to_ms
from events.triggers import Trigger
from tests.alerting import MINUTE
from tests.builders import new_alert
from tests.readme import transcript
from tests.support import ROOT, run
from tests.unit.metrics import (
    QUERY,
    Alerting,
    Channel,
    Driver,
    Producer,
    Scrape,
    all_programs,
    served,
)
from tests.unit.statuses import T0

Look = Callable[[], Scrape]


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def look(driver: Driver) -> Iterator[Look]:
    with served(driver.collectors) as look:
        yield look


def test_a_query_is_active_until_it_fails_and_again_after_its_restart(
    driver: Driver, look: Look
) -> None:
    driver.start()
    first = look()
    assert first("query_active", query=QUERY) == 1
    assert first("query_restarts_total", query=QUERY) == 0
    assert first("query_last_failure_timestamp_seconds", query=QUERY) is None
    assert first("query_info", query=QUERY, trigger="micro-batch") == 1
    assert first("query_topic_info", query=QUERY, topic="user-actions") == 1
    driver.clock.forward(2)
    driver.recorder.on_failure(QUERY, "no luck.")
    failed = look()
    assert failed("query_active", query=QUERY) == 0
    assert failed("query_last_failure_timestamp_seconds", query=QUERY) == T0 / 1000 + 2
    driver.start()
    again = look()
    assert again("query_active", query=QUERY) == 1
    assert again("query_restarts_total", query=QUERY) == 1


def test_the_transcript_on_the_page_of_metrics_is_what_a_driver_answers(driver: Driver) -> None:
    for name in ("overheating", "weak_signal"):
        driver.start(Trigger.REAL_TIME, name)
    with served(driver.collectors) as look:
        found = [line for line in look().text.splitlines() if "restarts" in line]
    command = "$ curl -s localhost:9101/metrics | grep restarts"
    assert transcript("docs/metrics.md", command) == found


def test_a_query_that_has_read_everything_is_finished(driver: Driver, look: Look) -> None:
    driver.start(Trigger.AVAILABLE_NOW)
    assert look()("query_finished", query=QUERY) == 0
    driver.recorder.on_finish(QUERY)
    last = look()
    assert (last("query_finished", query=QUERY), last("query_active", query=QUERY)) == (1, 0)


def test_a_batch_counts_its_records_and_durations_by_phase(driver: Driver, look: Look) -> None:
    driver.start()
    batch, phase = "query_batch_duration_seconds", "query_batch_phase_duration_seconds"
    assert look()("query_input_rows_total", query=QUERY) is None
    driver.end_batch()
    first = look()
    driver.end_batch(
        numInputRows=5, durationMs={"triggerExecution": 400, "addBatch": 125, "walCommit": 20}
    )
    second = look()

    def values(name: str, **labels: str) -> tuple[float | None, float | None]:
        return first(name, query=QUERY, **labels), second(name, query=QUERY, **labels)

    assert values("query_input_rows_total") == (7, 12)
    assert values(f"{batch}_count") == (1, 2)
    assert values(f"{batch}_sum") == (2, 2.4)
    assert values(f"{batch}_bucket", le="0.25") == (0, 0)
    assert values(f"{batch}_bucket", le="0.5") == (0, 1)
    assert values(f"{batch}_bucket", le="2.5") == (1, 2)
    assert values(f"{phase}_count", phase="addBatch") == (1, 2)
    assert values(f"{phase}_sum", phase="addBatch") == (1.5, 1.625)
    assert values(f"{phase}_sum", phase="queryPlanning") == (0.25, 0.25)
    assert values(f"{phase}_sum", phase="walCommit") == (None, 0.02)
    assert values(f"{phase}_count", phase="triggerExecution") == (None, None), "it is the whole"


def test_a_batch_sets_what_the_status_has_of_it(driver: Driver, look: Look) -> None:
    driver.start()
    driver.clock.forward(1)
    driver.end_batch()
    first = look()
    driver.clock.forward(1)
    driver.end_batch(
        stateOperators=[{"numRowsTotal": 3, "memoryUsedBytes": 10}],
        inputRowsPerSecond=1.5,
        processedRowsPerSecond=2.5,
        eventTime={"watermark": "2025-11-24T16:00:00.000Z"},
    )
    second = look()
    assert {
        name: (first(f"query_{name}", query=QUERY), second(f"query_{name}", query=QUERY))
        for name in (
            "late_records_total",
            "left_out_records_total",
            "state_rows",
            "state_bytes",
            "input_rows_per_second",
            "processed_rows_per_second",
            "watermark_timestamp_seconds",
            "last_batch_timestamp_seconds",
        )
    } == {
        "late_records_total": (2, 4),
        "left_out_records_total": (4, 8),
        "state_rows": (11, 3),
        "state_bytes": (123, 10),
        "input_rows_per_second": (20, 1.5),
        "processed_rows_per_second": (40, 2.5),
        "watermark_timestamp_seconds": (T0 / 1000 - 600, 1_764_000_000),
        "last_batch_timestamp_seconds": (T0 / 1000 + 1, T0 / 1000 + 2),
    }


def test_records_that_arrive_are_behind_until_a_batch_has_read_them(
    driver: Driver, look: Look
) -> None:
    driver.start()
    driver.end_batch(10)
    driver.recorder.on_topics({"user-actions": 10})
    before = look()
    driver.clock.forward(3)
    driver.recorder.on_topics({"user-actions": 14})
    waiting = look()
    driver.end_batch(14)
    after = look()

    def values(name: str) -> list[float | None]:
        return [one(f"query_{name}", query=QUERY) for one in (before, waiting, after)]

    assert values("records_behind") == [0, 4, 0]
    assert values("waiting_since_timestamp_seconds") == [None, T0 / 1000 + 3, None]
    topic = [one("topic_records_total", topic="user-actions") for one in (before, waiting)]
    assert topic == [10, 14]


def test_in_real_time_mode_what_is_unknown_is_absent(driver: Driver, look: Look) -> None:
    driver.start(Trigger.REAL_TIME)
    driver.end_batch(late_records=None, records_left_out=None)
    driver.recorder.on_topics({"user-actions": 10})
    found = look()
    for name in (
        "input_rows_per_second",
        "processed_rows_per_second",
        "records_behind",
        "late_records_total",
        "left_out_records_total",
    ):
        assert found(f"query_{name}", query=QUERY) is None


def test_a_driver_is_healthy_as_its_command_health_says(driver: Driver, look: Look) -> None:
    driver.start()
    first = look()
    assert (first("healthy"), first("broker_reachable")) == (1, 1)
    assert first("start_timestamp_seconds") == T0 / 1000
    driver.recorder.on_no_answer()
    away = look()
    assert (away("healthy"), away("broker_reachable")) == (1, 0), "it may be away for 30 s"
    driver.clock.forward(31)
    assert look()("healthy") == 0
    driver.recorder.on_topics({})
    assert (look()("healthy"), look()("broker_reachable")) == (1, 1)


def test_a_producer_counts_what_it_sends_and_what_fails() -> None:
    producer = Producer()
    with served(producer.collectors) as look:
        first = look()
        producer.publisher.sent += 9
        producer.publisher.acknowledged += 5
        producer.publisher.failed += 1
        producer.recorder.on_lag(1.75)
        second = look()
        producer.recorder.on_schedule_end()
        last = look()
    assert {
        name: (first(f"producer_{name}"), second(f"producer_{name}"))
        for name in (
            "records_sent_total",
            "records_failed_total",
            "unacknowledged_records",
            "behind_schedule_seconds",
        )
    } == {
        "records_sent_total": (0, 9),
        "records_failed_total": (0, 1),
        "unacknowledged_records": (0, 3),
        "behind_schedule_seconds": (0.25, 1.75),
    }
    assert last("producer_behind_schedule_seconds") is None
    assert (first("healthy"), first("broker_reachable")) == (1, 1)


@pytest.fixture
def alerting(tmp_path: Path) -> Iterator[Alerting]:
    alerting = Alerting(tmp_path)
    yield alerting
    alerting.simulation.close()


def test_alerting_counts_what_it_receives_and_removes(alerting: Alerting) -> None:
    with served(alerting.collectors) as look:
        first = look()
        alerting.recorder.cycle(alerts=5, repeats=2, malformed=1)
        alerting.recorder.published(False)
        second = look()
        alerting.recorder.published(True)
        last = look()
    assert {
        name: (first(f"alerting_{name}"), second(f"alerting_{name}"))
        for name in (
            "alerts_received_total",
            "repeats_removed_total",
            "malformed_records_total",
        )
    } == {
        "alerts_received_total": (0, 7),
        "repeats_removed_total": (0, 2),
        "malformed_records_total": (0, 1),
    }
    cycle = "alerting_last_cycle_timestamp_seconds"
    assert (second(cycle) or 0) >= (first(cycle) or 0) > 0
    unpublished = "alerting_unpublished_since_timestamp_seconds"
    assert first(unpublished) is None and last(unpublished) is None
    assert abs((second(unpublished) or 0) - now_ms() / 1000) < 10


def test_the_latency_is_from_the_deciding_readings_event_to_the_alerts_append(
    alerting: Alerting,
) -> None:
    alert = new_alert(1, T0, "rack-1", "WARNING", "error")
    assert alert.rule == RACK_OVERHEATING

    def append_after(seconds: float) -> None:
        append_ms = to_ms(alert.event_time) + round(1000 * seconds)
        alerting.metrics.on_alert(NewAlert(alert, "", alert.detected_time, append_ms))

    with served(alerting.collectors) as look:
        first = look()
        append_after(0.02)
        append_after(3.5)
        append_after(-60)  # the clock of the rack is ahead
        second = look()
    name = "alert_event_to_append_seconds"
    overheating = {"rule": RACK_OVERHEATING}
    assert (first(f"{name}_count", **overheating), second(f"{name}_count", **overheating)) == (0, 3)
    assert second(f"{name}_sum", **overheating) == pytest.approx(3.52)
    buckets = {
        le: second(f"{name}_bucket", le=le, **overheating) for le in ("0.01", "0.025", "5.0")
    }
    assert buckets == {"0.01": 1, "0.025": 2, "5.0": 3}
    assert second(f"{name}_count", rule=SILENT_SENSOR) == 0


def test_an_incident_is_open_until_it_is_resolved(alerting: Alerting) -> None:
    simulation = alerting.simulation

    def open_incidents(look: Look) -> tuple[float | None, float | None]:
        found = look()
        return (
            found("alerting_open_incidents", rule=RACK_OVERHEATING),
            found("alerting_open_incidents", rule=SILENT_SENSOR),
        )

    with served(alerting.collectors) as look:
        assert open_incidents(look) == (0, 0)
        simulation.alert("rack-1")
        simulation.alert("rack-2")
        assert open_incidents(look) == (2, 0)
        simulation.alert("rack-2", severity="critical")
        simulation.silence(MINUTE, "rack-1")
        assert open_incidents(look) == (2, 0), "it is silenced, not resolved"
        simulation.alert("rack-1", "NORMAL")
        assert open_incidents(look) == (1, 0), "its last notice is not due yet"


def test_notifications_are_counted_by_channel_and_result(
    alerting: Alerting, tmp_path: Path
) -> None:
    channel = Channel()
    policy = RetryPolicy(max_attempts=2, initial_delay_s=0, max_delay_s=0)
    with (
        closing(Outbox(alerting.simulation.path, channel.name)) as outbox,
        served(alerting.collectors) as look,
    ):
        worker = DeliveryWorker(
            channel, outbox, tmp_path / "dead", policy, print, alerting.metrics.on_attempt
        )

        def counts() -> list[float | None]:
            found = look()
            return [
                found("alerting_notifications_waiting", channel="webhook"),
                *(
                    found("alerting_notifications_total", channel="webhook", result=result)
                    for result in ("delivered", "retried", "dead")
                ),
            ]

        assert counts() == [0, 0, 0, 0]
        alerting.simulation.alert("rack-1")
        alerting.simulation.alert("rack-2", site_id="site-2")
        alerting.simulation.wait(MINUTE)
        assert counts() == [2, 0, 0, 0]
        worker.step()
        assert counts() == [1, 1, 0, 0]
        channel.error = DeliveryError("it is closed")
        worker.step()
        assert counts() == [1, 1, 1, 0]
        worker.step()
        assert counts() == [0, 1, 1, 1]
    assert len(channel.accepted) == 1


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scrape]:
    """Return what each program answers when every metric has a value."""
    return all_programs(tmp_path_factory.mktemp("all"))


def test_the_page_lists_every_metric_with_its_type_labels_and_meaning(
    answers: dict[str, Scrape],
) -> None:
    rows = dict.fromkeys(row for answer in answers.values() for row in answer.rows())
    expected = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {help_text} |"
        for name, kind, labels, help_text in rows
    ]
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `rackstream_")] == expected
    mentioned = {
        re.sub("_(bucket|count|sum)$", "", name) for name in re.findall(r"rackstream_\w+", page)
    }
    assert mentioned == {name for name, *_ in rows}, "the queries name existing metrics"


def test_no_label_names_a_device(answers: dict[str, Scrape]) -> None:
    samples = [sample for answer in answers.values() for sample in answer.samples]
    labels = {label for sample in samples for label in sample.labels}
    assert labels == {"query", "trigger", "phase", "topic", "rule", "channel", "result", "le"}
    values = {value for sample in samples for value in sample.labels.values()}
    assert not values & {"rack-1", "site-1"}, "the alert's subject and site"


def test_without_a_port_nothing_is_served() -> None:
    before = threading.active_count()
    with serve_metrics(None, Driver().collectors):
        assert threading.active_count() == before


def test_the_server_ends_with_its_program() -> None:
    port, before = free_port(), threading.active_count()
    for _ in range(2):  # the port is free again
        with serve_metrics(port, Driver().collectors):
            assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_a_port_that_is_taken_is_one_sentence() -> None:
    port = free_port()
    with (
        serve_metrics(port, []),
        pytest.raises(UserFacingError) as refused,
        serve_metrics(port, []),
    ):
        pass
    assert str(refused.value) == (
        f"port {port} for metrics is in use: choose another with --metrics-port or METRICS_PORT."
    )


def test_the_option_and_the_environment_set_the_port(tmp_path: Path) -> None:
    port = free_port()
    env = {"RACKSTREAM_HOME": str(tmp_path), "RACKSTREAM_ENV_FILE": ""}
    with serve_metrics(port, []):
        for options, variables in (
            (["--metrics-port", str(port)], {"METRICS_PORT": "1"}),
            ([], {"METRICS_PORT": str(port)}),
        ):
            done = run("alerting", "run", *options, env=env | variables)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"alerting: port {port} for metrics is in use: ")
            assert done.stderr.count("\n") == 1
    assert not list(tmp_path.glob("status/*")), "a process that has not started has no status"


@pytest.mark.parametrize(("text", "port"), [("", None), ("9100", 9100)])
def test_an_empty_setting_is_none(
    monkeypatch: pytest.MonkeyPatch, text: str, port: int | None
) -> None:
    monkeypatch.setenv("METRICS_PORT", text)
    found = Settings(_env_file=None)
    assert found.metrics_port == port
    assert found.with_metrics_port(None).metrics_port == port
    assert found.with_metrics_port(9200).metrics_port == 9200


def test_a_wrong_setting_is_one_sentence(tmp_path: Path) -> None:
    env = {"RACKSTREAM_HOME": str(tmp_path), "RACKSTREAM_ENV_FILE": "", "METRICS_PORT": "70000"}
    done = run("alerting", "run", env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("alerting: a setting is wrong: METRICS_PORT='70000': ")
    assert done.stderr.count("\n") == 1
