"""From a decision to the alert record of the contract, the same for every rule and plan."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.dead_letters import wall_clock_ms
from spark_jobs.kafka import to_record

ALERT_ID_HEX_DIGITS = 32


def alert_record(rule: str) -> list[Column]:
    """Return `key` and `value` for the topic `alerts`.

    Of `subject`, `site_id`, `state`, `severity`, `event_time` (of the deciding reading), `decider` (its id), `summary`
    and `evidence`. The id is a function of what was decided, never of when: the same topic gives the same ids.
    """
    identity = F.concat_ws("|", F.lit(rule), "subject", "state", "severity", "decider")
    return to_record(
        F.col("subject"),
        F.substring(F.sha2(identity, 256), 1, ALERT_ID_HEX_DIGITS).alias("alert_id"),
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
