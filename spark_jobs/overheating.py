"""Which racks are overheating? Topics: `rack-readings` to `alerts`.

A rack is in `WARNING` exactly when the last three of its distinct readings, by `sequence`, are all at or above its
threshold; every change is an alert, decided by the reading that was just taken (the contract has the whole rule).
Two plans for the one rule: built-in expressions in Real-time Mode (`in_a_row`), Python state in micro-batch
(`overheating_state`), held equal by one oracle in the tests; and one for what a file of rules makes of it
(`overheating_rules`). No window, no watermark: a wrong clock hides nothing.

What it gets wrong: a kill repeats alerts (their ids are the same). The real-time plan sees through three copies of a
reading; of more, and late, it may take one for new. Neither forgets a rack: about one kilobyte each, on disk.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import InventoryRack
from events.rules import Overheating
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.alerts import alert_record
from spark_jobs.dead_letters import or_letters
from spark_jobs.in_a_row import changes_in_a_row
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.overheating_buckets import IN_A_ROW
from spark_jobs.overheating_rules import Heat
from spark_jobs.overheating_state import packed_readings, stateful_overheating_changes
from spark_jobs.rack_rules import ordered_readings, racks_table, with_severity
from spark_jobs.rule_state import decisions, plain_alerts
from spark_jobs.triggers import Trigger

RULE = Overheating().name


def with_heat(readings: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `threshold_c` of the rack, 100 °C where the inventory does not name it, and `hot`: at or above it."""
    thresholds = racks_table(readings.sparkSession, inventory).select("rack_id", "rack.threshold_c")
    known = readings.join(F.broadcast(thresholds), on="rack_id", how="left")
    rated = known.withColumn("threshold_c", F.coalesce("threshold_c", F.lit(DEFAULT_THRESHOLD_C)))
    return rated.withColumn("hot", F.col("temperature_c") >= F.col("threshold_c"))


def overheating_changes(readings: DataFrame) -> DataFrame:
    """Return one row per change of a rack's state, for Real-time Mode, which emits once per reading.

    In: `rack_id`, `site_id`, `event_id`, `sequence`, `event_time`, `temperature_c`, `offset`, `hot`, `threshold_c`.
    Out: `subject`, `site_id`, `warning`, `event_time`, `decider`, `threshold_c` and `evidence`.
    """
    hit = readings.withColumnRenamed("hot", "hit")
    return changes_in_a_row(hit, IN_A_ROW, ("temperature_c",), ("site_id", "threshold_c"))


def overheating_decisions(changes: DataFrame, inventory: tuple[InventoryRack, ...] = ()) -> DataFrame:
    """Add `state`, `severity` and `summary` to the changes of either plan: all that an alert says."""
    rated = with_severity(changes, inventory)
    latest = F.element_at("evidence", -1)["temperature_c"]
    warning, threshold = F.col("warning"), F.format_string("%.1f", "threshold_c")
    summary = F.when(
        warning,
        F.format_string(
            "Rack %s is overheating: its last %s readings are all at or above %s °C, the latest %.1f °C.",
            "subject", F.lit(str(IN_A_ROW)), threshold, latest,
        ),
    ).otherwise(
        F.format_string(
            "Rack %s is back to normal: its last %s readings are no longer all at or above %s °C, the latest %.1f °C.",
            "subject", F.lit(str(IN_A_ROW)), threshold, latest,
        )
    )  # fmt: skip
    return rated.withColumns(
        {
            "state": F.when(warning, "WARNING").otherwise("NORMAL"),
            "severity": F.when(warning, F.col("severity")).otherwise("info"),
            "summary": summary,
        }
    )


def _real_time(readings: DataFrame, options: JobOptions) -> DataFrame:
    changes = overheating_changes(with_heat(readings, options.inventory))
    return overheating_decisions(changes, options.inventory).select(*alert_record(RULE))


def _micro_batch(raw: DataFrame, options: JobOptions) -> DataFrame:
    packed = packed_readings(raw, RACK_READINGS.name)
    changes = stateful_overheating_changes(packed, options.inventory)
    return overheating_decisions(changes, options.inventory).select(
        *or_letters(alert_record(RULE), ALERTS.name)
    )


def _by_rules(readings: DataFrame, options: JobOptions) -> DataFrame:
    rows = ordered_readings(readings, options.inventory)
    found = decisions(rows, "rack_id", Heat, options.rules)
    return plain_alerts(found, RULE)


_BY_RULES = Plan("rules", _by_rules, ("append",))

JOB = Job(
    name="overheating",
    source=RACK_READINGS,
    sink=ALERTS,
    rules_version="v1",
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: Plan("buckets", _micro_batch, ("update",), reads_raw=True),
        Trigger.AVAILABLE_NOW: Plan("buckets", _micro_batch, ("update",), reads_raw=True),
    },
    rule=Overheating,
    by_rules={Trigger.MICRO_BATCH: _BY_RULES, Trigger.AVAILABLE_NOW: _BY_RULES},
)
