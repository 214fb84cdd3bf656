"""Define the Prometheus metrics of alerting: its status, its database, and its alerts' latency."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from alerting.decoding import NewAlert
from alerting.incidents.repository import count_open_incidents
from alerting.notifications.delivery import AttemptResult
from alerting.notifications.outbox import count_waiting
from events.alerting_health import problems
from events.alerting_status import AlertingStatus
from events.catalog import RULES
from events.metrics import StatusCollector, StatusMetric, program_metrics, single, timestamp_s
from events.times import to_ms

LATENCY_BUCKETS_S = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300
)  # fmt: skip
"""From an alert in Real-time Mode (some 10 ms) to a site outage, which takes minutes."""

STATUS_METRICS: Sequence[StatusMetric[AlertingStatus]] = (
    *program_metrics(problems),
    StatusMetric(
        "rackstream_alerting_alerts_received_total",
        "Valid records that were read from the topic `alerts`, repeats included.",
        single(lambda status: status.alerts + status.repeats),
    ),
    StatusMetric(
        "rackstream_alerting_repeats_removed_total",
        "Records that repeated an alert, and were removed.",
        single(lambda status: status.repeats),
    ),
    StatusMetric(
        "rackstream_alerting_malformed_records_total",
        "Records that are no valid alert or command, and were skipped.",
        single(lambda status: status.malformed),
    ),
    StatusMetric(
        "rackstream_alerting_last_cycle_timestamp_seconds",
        "When the main loop last began to look for records.",
        single(lambda status: timestamp_s(status.last_cycle_time)),
    ),
    StatusMetric(
        "rackstream_alerting_unpublished_since_timestamp_seconds",
        "Since when incidents wait for their publication to the topic `incidents`; absent if none.",
        single(lambda status: timestamp_s(status.unpublished_since)),
    ),
)


class AlertingMetrics:
    """The metrics of an alerting process with a database, for the channels of these names."""

    def __init__(
        self, snapshot: Callable[[], AlertingStatus], database: Path, channels: Sequence[str]
    ) -> None:
        self._latency = Histogram(
            "rackstream_alert_event_to_append_seconds",
            "From an alert's event time to the alert's append time in Kafka; repeats are not "
            "counted.",
            ("rule",),
            buckets=LATENCY_BUCKETS_S,
            registry=None,
        )
        self._notifications = Counter(
            "rackstream_alerting_notifications_total",
            "Attempts to notify: `delivered` was accepted, `retried` failed and is tried again, "
            "`dead` failed for good and is in the dead-letter file.",
            ("channel", "result"),
            registry=None,
        )
        # At 0 from the start: otherwise `rate` would miss the first of each.
        for rule in RULES:
            self._latency.labels(rule)
        results: tuple[AttemptResult, ...] = ("delivered", "retried", "dead")
        for channel in channels:
            for result in results:
                self._notifications.labels(channel, result)
        self.collectors: list[Collector] = [
            StatusCollector(snapshot, STATUS_METRICS),
            _DatabaseCollector(database, channels),
            self._notifications,
            self._latency,
        ]

    def on_alert(self, new: NewAlert) -> None:
        """Take note of an alert that has been logged."""
        latency_s = (new.append_ms - to_ms(new.alert.event_time)) / 1000
        # A rack whose clock is ahead would reduce the sum, which Prometheus takes for a restart.
        self._latency.labels(new.alert.rule).observe(max(0.0, latency_s))

    def on_attempt(self, channel: str, result: AttemptResult) -> None:
        """Take note of an attempt to deliver a notice."""
        self._notifications.labels(channel, result).inc()


class _DatabaseCollector(Collector):
    """Counts what is in the database, at each scrape."""

    def __init__(self, database: Path, channels: Sequence[str]) -> None:
        self._database, self._channels = database, channels

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        # A connection belongs to one thread, and each scrape has its own.
        uri = f"{self._database.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as db:
            open_incidents, waiting = count_open_incidents(db), count_waiting(db)
        incidents = GaugeMetricFamily(
            "rackstream_alerting_open_incidents",
            "Incidents that are not resolved: firing, acknowledged or silenced.",
            labels=("rule",),
        )
        for rule in RULES:
            incidents.add_metric((rule,), open_incidents.get(rule, 0))
        yield incidents
        notices = GaugeMetricFamily(
            "rackstream_alerting_notifications_waiting",
            "Notices that wait for their delivery; a channel that is not set may have some, too.",
            labels=("channel",),
        )
        for channel in sorted({*self._channels, *waiting}):
            notices.add_metric((channel,), waiting.get(channel, 0))
        yield notices
