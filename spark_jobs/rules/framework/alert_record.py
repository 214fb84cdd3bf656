"""Build the alert record of the contract, the same way for every rule and plan."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.runtime.kafka_io import INSTANT_FORMAT, header_column, to_record, wall_clock_ms

ALERT_ID_HEX_DIGITS = 32
CLOUD_EVENT = {
    "ce_specversion": "1.0",
    "ce_type": "rackstream.alert",
    "content-type": "application/json",
}
"""The headers that all alerts share: CloudEvents' Kafka binding in binary mode."""


def alert_record(rule: str) -> list[Column]:
    """Return `key`, `value` and `headers` for the topic `alerts`.

    In: `subject`, `site_id`, `state`, `severity`, `event_time` (of the triggering reading),
    `trigger_event_id`, `summary` and `evidence`.

    The headers are CloudEvents' attributes, with the alert's id as theirs. The id depends on what
    was decided and never on when, so the same topic contents give the same ids.
    """
    identity = F.concat_ws("|", F.lit(rule), "subject", "state", "severity", "trigger_event_id")
    alert_id = F.substring(F.sha2(identity, 256), 1, ALERT_ID_HEX_DIGITS)
    key, value = to_record(
        F.col("subject"),
        alert_id.alias("alert_id"),
        F.lit(rule).alias("rule"),
        "subject",
        "site_id",
        "state",
        "severity",
        "event_time",
        F.timestamp_millis(wall_clock_ms()).alias("detected_time"),
        "summary",
        "evidence",
    )
    attributes = {
        **{name: F.lit(text) for name, text in CLOUD_EVENT.items()},
        "ce_source": F.lit(f"/rackstream/rules/{rule}"),
        "ce_id": alert_id,
        "ce_time": F.date_format("event_time", INSTANT_FORMAT["timestampFormat"]),
    }
    return [key, value, header_column(attributes)]
