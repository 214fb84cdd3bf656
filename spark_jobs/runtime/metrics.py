"""Define the Prometheus metrics of a driver: its status, and how long its queries' batches last."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter, Histogram, Summary
from prometheus_client.registry import Collector

from events.driver_health import problems
from events.driver_status import DriverStatus, QueryStatus
from events.metrics import Samples, StatusMetric, program_metrics, timestamp_s

BATCH_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""From a small micro-batch to two real-time batches of the default length."""


def _query(
    name: str, help_text: str, value: Callable[[QueryStatus], float | None]
) -> StatusMetric[DriverStatus]:
    def samples(driver: DriverStatus) -> Samples:
        return [((query.name,), value(query)) for query in driver.queries]

    return StatusMetric(f"rackstream_query_{name}", help_text, samples, ("query",))


STATUS_METRICS: Sequence[StatusMetric[DriverStatus]] = (
    *program_metrics(problems),
    StatusMetric(
        "rackstream_topic_records_total",
        "Records that a topic has ever held: its end offsets, summed over its partitions.",
        lambda driver: [((name,), topic.end_offset) for name, topic in driver.topics.items()],
        ("topic",),
    ),
    StatusMetric(
        "rackstream_query_info",
        "Always 1; the label has the trigger of the query.",
        lambda driver: [((query.name, query.trigger), 1) for query in driver.queries],
        ("query", "trigger"),
    ),
    StatusMetric(
        "rackstream_query_topic_info",
        "Always 1; the label has a topic that the query reads.",
        lambda driver: [
            ((query.name, topic), 1) for query in driver.queries for topic in query.topics
        ],
        ("query", "topic"),
    ),
    _query("active", "1 while the query runs, else 0.", lambda query: query.active),
    _query(
        "finished",
        "1 when the query has read everything, with --trigger available-now, else 0.",
        lambda query: query.finished,
    ),
    _query(
        "restarts_total",
        "How often the driver has started the query again.",
        lambda query: query.restarts,
    ),
    _query(
        "last_failure_timestamp_seconds",
        "When the query failed last; absent if it never did.",
        lambda query: timestamp_s(query.last_error_time),
    ),
    _query(
        "last_batch_timestamp_seconds",
        "When the latest batch ended.",
        lambda query: timestamp_s(query.last_progress_time),
    ),
    _query(
        "input_rows_per_second",
        "Records that arrived per second, in the latest batch; absent in Real-time Mode.",
        lambda query: query.input_rows_per_second,
    ),
    _query(
        "processed_rows_per_second",
        "Records that were processed per second, in the latest batch; absent in Real-time Mode.",
        lambda query: query.processed_rows_per_second,
    ),
    _query(
        "records_behind",
        "Records that the topics hold beyond the latest batch (lag); absent in Real-time Mode.",
        lambda query: query.records_behind,
    ),
    _query(
        "waiting_since_timestamp_seconds",
        "Since when records have waited for the end of a batch; absent if none wait, or unknown.",
        lambda query: timestamp_s(query.waiting_since),
    ),
    _query(
        "watermark_timestamp_seconds",
        "The watermark; absent for a query without one.",
        lambda query: timestamp_s(query.watermark),
    ),
    _query(
        "late_records_total",
        "Records that were dropped as late; absent where Spark does not tell.",
        lambda query: query.late_records,
    ),
    _query(
        "left_out_records_total",
        "Records that the job left out as unreadable or too far in the future.",
        lambda query: query.records_left_out,
    ),
    _query(
        "state_rows",
        "Rows of state after the latest batch; absent where they are not counted.",
        lambda query: query.state_rows,
    ),
    _query(
        "state_bytes",
        "Memory for state after the latest batch.",
        lambda query: query.state_bytes,
    ),
)


class BatchMetrics:
    """What is counted at the end of each batch; `on_progress` is a handler of `BatchListener`."""

    def __init__(self) -> None:
        self._input_rows = Counter(
            "rackstream_query_input_rows_total",
            "Records that the batches have read.",
            ("query",),
            registry=None,
        )
        self._duration = Histogram(
            "rackstream_query_batch_duration_seconds",
            "How long a batch took, from its start to its commit.",
            ("query",),
            buckets=BATCH_BUCKETS_S,
            registry=None,
        )
        self._phase_duration = Summary(
            "rackstream_query_batch_phase_duration_seconds",
            "How long a phase of a batch took; the phases have Spark's names.",
            ("query", "phase"),
            registry=None,
        )

    @property
    def collectors(self) -> list[Collector]:
        """The metrics."""
        return [self._input_rows, self._duration, self._phase_duration]

    def on_progress(self, progress: Mapping[str, Any]) -> None:
        """Take note of a batch, from Spark's progress."""
        name = progress["name"]
        self._input_rows.labels(name).inc(progress["numInputRows"])
        for phase, duration_ms in progress["durationMs"].items():
            if phase == "triggerExecution":  # the whole, which is no phase
                self._duration.labels(name).observe(duration_ms / 1000)
            else:
                self._phase_duration.labels(name, phase).observe(duration_ms / 1000)
