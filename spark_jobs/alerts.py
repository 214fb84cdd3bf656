"""From a decision to the alert record of the contract, the same for every rule and plan."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.dead_letters import wall_clock_ms
from spark_jobs.kafka import INSTANT_FORMAT, to_record

ALERT_ID_HEX_DIGITS = 32
CLOUD_EVENT = {"ce_specversion": "1.0", "ce_type": "rackstream.alert", "content-type": "application/json"}
"""What all alerts say in their headers, by CloudEvents' binding for Kafka, binary mode."""
HEADERS = "array<struct<key: string, value: binary>>"


def alert_record(rule: str) -> list[Column]:
    """Return `key`, `value` and `headers` (CloudEvents' attributes, the id being the alert's) for the topic `alerts`.

    Of `subject`, `site_id`, `state`, `severity`, `event_time` (of the deciding reading), `decider` (its id), `summary`
    and `evidence`. The id is a function of what was decided, never of when: the same topic gives the same ids.
    """
    identity = F.concat_ws("|", F.lit(rule), "subject", "state", "severity", "decider")
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
    headers = F.array(
        *[
            F.struct(F.lit(name).alias("key"), F.encode(text, "utf-8").alias("value"))
            for name, text in attributes.items()
        ]
    )
    return [key, value, headers.cast(HEADERS).alias("headers")]
