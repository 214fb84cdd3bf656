"""Serve Prometheus metrics: the figures of a program's status, and what it counts besides.

The figures of the status are read when Prometheus asks for them, from the snapshot that the status
file has too. Nothing is counted twice, and between two scrapes they cost nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EADDRINUSE
from typing import Annotated, Generic, TypeVar

import typer
from prometheus_client import CollectorRegistry, disable_created_metrics, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from events.cli import UserFacingError
from events.status_file import ProgramStatus
from events.times import to_ms

MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=65535,
        help="Port that serves Prometheus metrics; default: METRICS_PORT. Without either, none.",
    ),
]
"""The option `--metrics-port` of every program that has metrics."""

Status = TypeVar("Status", bound=ProgramStatus)
Samples = Iterable[tuple[Sequence[str], float | None]]
"""Values of a metric, each with those of its labels; an unknown value is None, and is left out."""

# They would be a further time series for each counter and histogram.
disable_created_metrics()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class StatusMetric(Generic[Status]):
    """A metric that is read from a status: a counter if its name ends in `_total`, else a gauge."""

    name: str
    help: str
    samples: Callable[[Status], Samples]
    labels: Sequence[str] = ()

    def read(self, status: Status) -> Metric:
        """Return the metric with its values in a status."""
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        family = kind(self.name, self.help, labels=self.labels)
        for labels, value in self.samples(status):
            if value is not None:
                family.add_metric(labels, value)
        return family


class StatusCollector(Collector, Generic[Status]):
    """Reads metrics from a snapshot of the status at each scrape; it may not block."""

    def __init__(
        self, snapshot: Callable[[], Status], metrics: Sequence[StatusMetric[Status]]
    ) -> None:
        self._snapshot, self._metrics = snapshot, metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that have a value now."""
        status = self._snapshot()
        for metric in self._metrics:
            family = metric.read(status)
            if family.samples:
                yield family


def single(value: Callable[[Status], float | None]) -> Callable[[Status], Samples]:
    """Return the samples of a metric without labels."""
    return lambda status: [((), value(status))]


def timestamp_s(time: str | None) -> float | None:
    """Return a time of a status as Prometheus writes times: seconds since 1970."""
    return None if time is None else to_ms(time) / 1000


def program_metrics(problems: Callable[[Status, int], list[str]]) -> list[StatusMetric[Status]]:
    """Return the metrics that every program has; `problems` is what its command `health` asks."""
    return [
        StatusMetric(
            "rackstream_healthy",
            "1 while the command `health` finds no problem with this process, else 0.",
            single(lambda status: not problems(status, to_ms(status.written_time))),
        ),
        StatusMetric(
            "rackstream_broker_reachable",
            "1 while the broker answers this process, else 0.",
            single(lambda status: status.broker.reachable),
        ),
        StatusMetric(
            "rackstream_start_timestamp_seconds",
            "When this process started.",
            single(lambda status: timestamp_s(status.started_time)),
        ),
    ]


@contextmanager
def serve_metrics(port: int | None, collectors: Iterable[Collector]) -> Iterator[None]:
    """Serve metrics over HTTP on all interfaces until the context ends; without a port do nothing.

    Raises `UserFacingError` when the port cannot be used.
    """
    if port is None:
        yield
        return
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    try:
        server, thread = start_http_server(port, registry=registry)
    except OSError as error:
        why = "is in use" if error.errno == EADDRINUSE else f"cannot be used ({error.strerror})"
        raise UserFacingError(
            f"port {port} for metrics {why}: choose another with --metrics-port or METRICS_PORT."
        ) from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
