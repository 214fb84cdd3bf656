"""Define the Prometheus metrics of a producer: all are figures of its status."""

from collections.abc import Sequence

from events.metrics import StatusMetric, program_metrics, single
from producer.status import ProducerStatus, problems

STATUS_METRICS: Sequence[StatusMetric[ProducerStatus]] = (
    *program_metrics(problems),
    StatusMetric(
        "rackstream_producer_records_sent_total",
        "Records that were handed to the Kafka client.",
        single(lambda status: status.sent),
    ),
    StatusMetric(
        "rackstream_producer_records_failed_total",
        "Records that the broker did not accept.",
        single(lambda status: status.failed),
    ),
    # No counter of acknowledged records: it is computed while others are sent, and may go back.
    StatusMetric(
        "rackstream_producer_unacknowledged_records",
        "Records that the broker has not answered yet.",
        single(lambda status: status.unacknowledged),
    ),
    StatusMetric(
        "rackstream_producer_behind_schedule_seconds",
        "How far the run is behind its schedule; absent at the highest rate, which has none.",
        single(lambda status: status.behind_schedule_s),
    ),
)
