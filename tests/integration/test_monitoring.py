"""Real Prometheus and Alertmanager: each rule ends in a notification, each query has an answer.

The programs are the recorders and collectors of the real ones, without a broker, so that the test
decides what breaks. The rules are those of deploy/monitoring with shorter waits.
"""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.registry import Collector

from alerting.decoding import NewAlert
from broker.server import free_port
from events.metrics import StatusCollector, serve_metrics
from events.times import to_ms, to_text
from producer.metrics import STATUS_METRICS as PRODUCER_METRICS
from producer.status import ProducerStatus
from tests.alerting import MINUTE
from tests.builders import new_alert
from tests.monitoring import (
    alertmanager,
    dashboard_queries,
    prometheus,
    read_yaml,
    rules,
    write,
)
from tests.support import equal_to, eventually
from tests.unit.metrics import Alerting, Driver, Producer
from tests.unit.statuses import T0
from tests.unit.test_alerting_channels import Receiver, serving

pytestmark = pytest.mark.full

SCRAPE_INTERVAL_S = 0.5
QUICK = {"group_wait": "0s", "group_interval": "1s"}


@contextmanager
def running(command: list[str], ready_url: str, log: Path) -> Iterator[None]:
    """Run a server until the context ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(OSError), urllib.request.urlopen(ready_url, timeout=5) as answer:  # noqa: S310 - the test's own address
            return bool(answer.status == 200)
        return False

    try:
        eventually(answers)
        yield
    finally:
        process.kill()
        process.wait()


class Prometheus:
    """The API of a Prometheus of this machine."""

    def __init__(self, port: int, targets: int) -> None:
        self.url, self.targets = f"http://127.0.0.1:{port}", targets

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - the test's own address
            found = json.load(answer)
        assert found["status"] == "success"
        return found["data"]

    def series(self, query: str) -> list[dict[str, Any]]:
        """Return the series that a query has now."""
        found: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return found

    def await_scrapes(self) -> None:
        """Wait until Prometheus has asked each program a few times from now."""
        later = time.time() + 3 * SCRAPE_INTERVAL_S
        query = f"min(timestamp(up)) > {later} and count(up) == {self.targets}"
        eventually(lambda: self.series(query))


class Programs:
    """A driver, a producer and alerting; all is well at first."""

    def __init__(self, folder: Path) -> None:
        self.driver, self.producer, self.alerting = Driver(), Producer(), Alerting(folder)
        self.driver.start()
        self.driver.start(query="fails")
        self.driver.start(query="restarts")
        self.driver.end_batch(late_records=0, records_left_out=0)
        self.starts: Iterator[int] | None = None
        self.restarting = StatusCollector(self._producer_status, PRODUCER_METRICS)
        self.micro_batch = Driver()
        self.micro_batch.start(query="dead_letters-user-actions")

    def _producer_status(self) -> ProducerStatus:
        status = self.producer.recorder.snapshot()
        if self.starts is None:
            return status
        return msgspec.structs.replace(status, started_time=to_text(T0 + next(self.starts)))

    def break_all_but_the_broker(self) -> None:
        """Let everything happen for which there is a rule, except for the broker's."""
        self.starts = count(1000, 1000)
        for query in ("fails", "restarts"):
            self.driver.recorder.on_failure(query, "no luck.")
        self.driver.start(query="restarts")
        # Of its topic it has read ten records; two wait, and no more arrive.
        self.driver.end_batch(10)
        self.driver.recorder.on_topics({"user-actions": 12})
        self.driver.clock.forward(60)  # the query that has failed makes the driver unhealthy
        simulation, metrics = self.alerting.simulation, self.alerting.metrics
        simulation.alert("rack-1")
        simulation.wait(MINUTE)  # a notice waits
        for result in ("delivered", "retried", "dead"):
            metrics.on_attempt("webhook", result)
        alert = new_alert(1, T0, "rack-1", "WARNING", "error")
        late_ms = to_ms(alert.event_time) + MINUTE
        metrics.on_alert(NewAlert(alert, "", alert.detected_time, late_ms))


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Return the programs; their metrics are not served yet."""
    found = Programs(tmp_path)
    yield found
    found.alerting.simulation.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return the server that Alertmanager notifies."""
    with serving(Receiver()) as receiver:
        yield receiver


@pytest.fixture
def alertmanager_port(receiver: Receiver, tmp_path: Path) -> Iterator[int]:
    """Run Alertmanager with the repository's configuration and a receiver."""
    config, port = read_yaml("alertmanager.yml"), free_port()
    config["route"] |= QUICK
    config["receivers"][0]["webhook_configs"] = [{"url": receiver.url, "send_resolved": False}]
    command = [
        alertmanager(),
        f"--config.file={write(tmp_path / 'alertmanager.yml', config)}",
        f"--storage.path={tmp_path / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    ready = f"http://127.0.0.1:{port}/-/ready"
    with running(command, ready, tmp_path / "alertmanager.log"):
        yield port


@contextmanager
def watching(
    folder: Path, targets: dict[str, list[int]], alertmanager_port: int
) -> Iterator[Prometheus]:
    """Run Prometheus with the repository's configuration; in: the ports of each program."""
    config, port = read_yaml("prometheus.yml"), free_port()
    api = Prometheus(port, sum(map(len, targets.values())))
    interval = f"{1000 * SCRAPE_INTERVAL_S:.0f}ms"
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    (where,) = config["alerting"]["alertmanagers"]
    where["static_configs"] = [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]
    for job in config["scrape_configs"]:
        addresses = [f"127.0.0.1:{each}" for each in targets.pop(job["job_name"])]
        job["static_configs"] = [{"targets": addresses}]
    assert not targets
    quick = [rule | ({"for": "1s"} if "for" in rule else {}) for rule in rules()]
    write(folder / "rules.yml", {"groups": [{"name": "rackstream", "rules": quick}]})
    command = [
        prometheus(),
        f"--config.file={write(folder / 'prometheus.yml', config)}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, f"{api.url}/-/ready", folder / "prometheus.log"):
        yield api


def notified(receiver: Receiver) -> list[dict[str, Any]]:
    """Return the alerts of all notifications."""
    return [alert for notice in list(receiver.received) for alert in notice["alerts"]]


def names(receiver: Receiver) -> set[str]:
    """Return the names of the alerts that somebody was notified of."""
    return {alert["labels"]["alertname"] for alert in notified(receiver)}


def test_each_rule_ends_in_a_notification_and_each_query_of_the_dashboard_has_an_answer(
    programs: Programs, receiver: Receiver, alertmanager_port: int, tmp_path: Path
) -> None:
    with ExitStack() as servers, ExitStack() as another_driver:

        def serve(collectors: Iterable[Collector], until: ExitStack = servers) -> int:
            port = free_port()
            until.enter_context(serve_metrics(port, collectors))
            return port

        targets = {
            "producer": [serve([programs.restarting])],
            "spark_jobs": [
                serve(programs.driver.collectors),
                serve(programs.micro_batch.collectors, another_driver),
            ],
            "alerting": [serve(programs.alerting.collectors)],
        }
        api = servers.enter_context(watching(tmp_path, targets, alertmanager_port))
        api.await_scrapes()
        assert api.series("ALERTS") == []
        assert api.series("sum(up)")[0]["value"][1] == "4"

        programs.break_all_but_the_broker()
        another_driver.close()
        expected = {rule["alert"] for rule in rules()}
        eventually(lambda: names(receiver), equal_to(expected - {"RackstreamBrokerDown"}))
        unanswered = [query for query in dashboard_queries() if not api.series(query)]
        assert unanswered == []

        programs.alerting.recorder.broker_answers(False)
        eventually(lambda: names(receiver), equal_to(expected))
    for alert in notified(receiver):
        text = " ".join(alert["annotations"].values())
        assert "<" not in text and "{{" not in text and "  " not in text and "Inf" not in text, text
        subject = {"instance", "rule", "topic", "channel"} & set(alert["labels"])
        assert any(alert["labels"][label] in text for label in subject) or "overheating" in text


def test_without_the_broker_nobody_is_notified_of_what_follows(
    programs: Programs, receiver: Receiver, alertmanager_port: int, tmp_path: Path
) -> None:
    with ExitStack() as servers:
        port = free_port()
        servers.enter_context(serve_metrics(port, programs.driver.collectors))
        targets: dict[str, list[int]] = {"producer": [], "spark_jobs": [port], "alerting": []}
        api = servers.enter_context(watching(tmp_path, targets, alertmanager_port))
        programs.driver.recorder.on_no_answer()
        eventually(lambda: names(receiver), equal_to({"RackstreamBrokerDown"}))
        programs.driver.recorder.on_failure("fails", "no broker.")
        query = 'ALERTS{alertname="RackstreamQueryDown", alertstate="firing"}'
        eventually(lambda: api.series(query))
        api.await_scrapes()
        assert names(receiver) == {"RackstreamBrokerDown"}
