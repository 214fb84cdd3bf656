"""Scrape metrics over HTTP, and programs in which every metric has a value."""

import re
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from alerting.metrics import AlertingMetrics
from alerting.notifications.channels import DeliveryError
from alerting.notifications.notice import Notice
from alerting.status import StatusRecorder as AlertingRecorder
from broker.server import free_port
from events.metrics import StatusCollector, serve_metrics
from events.status_file import Process
from events.times import to_text
from events.triggers import Trigger
from producer.metrics import STATUS_METRICS as PRODUCER_METRICS
from producer.status import StatusRecorder as ProducerRecorder
from spark_jobs.runtime.metrics import STATUS_METRICS as DRIVER_METRICS
from spark_jobs.runtime.metrics import BatchMetrics
from spark_jobs.runtime.status_recorder import StatusRecorder as DriverRecorder
from tests.alerting import MINUTE, AlertingSimulation
from tests.support import eventually
from tests.unit.statuses import T0, Clock, Publisher

QUERY = "user_totals"


class Scrape:
    """What a program answered; call it with a sample's name and labels for its value, or None."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples
        ]
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value for sample in self.samples
        }
        assert len(self._values) == len(self.samples), "a series is there twice"

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return a value, or None for a series that is not there."""
        return self._values.get((f"rackstream_{name}", frozenset(labels.items())))

    def rows(self) -> list[tuple[str, str, tuple[str, ...], str]]:
        """Return name, type, labels and help of each metric, in the order of the answer."""
        helps = dict(re.findall(r"^# HELP (\S+) (.*)$", self.text, re.MULTILINE))
        types = re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.MULTILINE)
        assert [name for name, _ in types] == list(helps)
        rows = []
        for name, kind in types:
            suffix = "_count" if kind in ("histogram", "summary") else ""
            labels = {
                tuple(sample.labels) for sample in self.samples if sample.name == name + suffix
            }
            assert len(labels) == 1, f"{name} has samples with the labels {labels}"
            rows.append((name, kind, labels.pop(), helps[name]))
        return rows


def scrape(port: int) -> Scrape:
    """Ask a program of this machine for its metrics."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return Scrape(answer.read().decode())


def value(port: int, name: str, **labels: str) -> float | None:
    """Return a value, or None while the program does not serve it."""
    with suppress(OSError):
        return scrape(port)(name, **labels)
    return None


def await_value(expected: float, port: int, name: str, **labels: str) -> Scrape:
    """Wait for a value, and return a scrape that has it."""
    eventually(lambda: value(port, name, **labels), lambda found: found == expected)
    return scrape(port)


@contextmanager
def served(collectors: Iterable[Collector]) -> Iterator[Callable[[], Scrape]]:
    """Serve metrics as a program does; return a function that scrapes them."""
    port = free_port()
    with serve_metrics(port, collectors):
        yield lambda: scrape(port)


def progress(end: int = 10, **changes: Any) -> dict[str, Any]:
    """Return Spark's progress of a batch of seven records that has read up to an offset."""
    return {
        "name": QUERY,
        "batchId": 3,
        "numInputRows": 7,
        "durationMs": {"triggerExecution": 2000, "addBatch": 1500, "queryPlanning": 250},
        "inputRowsPerSecond": 20.0,
        "processedRowsPerSecond": 40.0,
        "eventTime": {"watermark": to_text(T0 - 600_000)},
        "stateOperators": [
            {"numRowsTotal": 5, "memoryUsedBytes": 100},
            {"numRowsTotal": 6, "memoryUsedBytes": 23},
        ],
        "sources": [{"endOffset": {"user-actions": {"0": end - 1, "1": 1}}}],
        "late_records": 2,
        "records_left_out": 4,
    } | changes


class Driver:
    """A driver without Spark: the recorder and the metrics that a runner has, and a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        process = Process("spark_jobs", "", to_text(T0))
        self.recorder = DriverRecorder(process, "kafka:9092", [QUERY], "checkpoints", self.clock)
        self.batches = BatchMetrics()
        self.collectors: list[Collector] = [
            StatusCollector(self.recorder.snapshot, DRIVER_METRICS),
            *self.batches.collectors,
        ]

    def start(self, trigger: Trigger = Trigger.MICRO_BATCH, query: str = QUERY) -> None:
        """Start a query."""
        self.recorder.on_start(query, query, trigger, ["user-actions"], 5.0)

    def end_batch(self, end: int = 10, **changes: Any) -> None:
        """End a batch."""
        for handler in (self.recorder.on_progress, self.batches.on_progress):
            handler(progress(end, **changes))

    @classmethod
    def with_everything(cls) -> "Driver":
        """Return a driver in which every metric has a value."""
        driver = cls()
        driver.start()
        driver.recorder.on_failure(QUERY, "no luck.")
        driver.start()
        driver.end_batch(10)
        driver.recorder.on_topics({"user-actions": 12})
        return driver


class Producer:
    """A producer without a broker."""

    def __init__(self) -> None:
        self.clock, self.publisher = Clock(), Publisher()
        process = Process("producer", "", to_text(T0))
        self.recorder = ProducerRecorder(process, "kafka:9092", self.publisher, self.clock)
        self.recorder.on_lag(0.25)
        self.collectors: list[Collector] = [
            StatusCollector(self.recorder.snapshot, PRODUCER_METRICS)
        ]


@dataclass
class Channel:
    """A channel that accepts notices, or fails as the test says."""

    name: str = "webhook"
    error: DeliveryError | None = None
    accepted: list[Notice] = field(default_factory=list)

    def send(self, notice: Notice) -> None:
        """Accept a notice, or raise the error."""
        if self.error is not None:
            raise self.error
        self.accepted.append(notice)


class Alerting:
    """Alerting without a broker: a database, its topics and a clock, and its metrics."""

    def __init__(self, folder: Path) -> None:
        database = folder / "db"
        self.simulation = AlertingSimulation(database, channels=("webhook",))
        self.recorder = AlertingRecorder("kafka:9092", "", database)
        self.recorder.broker_answers(True)
        self.metrics = AlertingMetrics(self.recorder.snapshot, database, ["webhook"])
        self.collectors = self.metrics.collectors

    @classmethod
    def with_everything(cls, folder: Path) -> "Alerting":
        """Return alerting in which every metric has a value."""
        alerting = cls(folder)
        alerting.simulation.alert("rack-1")
        alerting.simulation.wait(MINUTE)
        alerting.recorder.published(False)
        return alerting


def all_programs(folder: Path) -> dict[str, Scrape]:
    """Return what each program answers when every metric has a value."""
    alerting = Alerting.with_everything(folder)
    programs: dict[str, list[Collector]] = {
        "spark_jobs": Driver.with_everything().collectors,
        "producer": Producer().collectors,
        "alerting": alerting.collectors,
    }
    answers = {}
    for name, collectors in programs.items():
        with served(collectors) as look:
            answers[name] = look()
    alerting.simulation.close()
    return answers
