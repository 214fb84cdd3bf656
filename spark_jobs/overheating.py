"""Which racks are overheating? Topics: `rack-readings` to `alerts`.

A rack is in `WARNING` exactly when the last three of its distinct readings, by `sequence`, are all at or above its
threshold; every change is an alert, decided by the reading that was just taken (the contract has the whole rule).
Two plans for the one rule: built-in expressions in Real-time Mode (this file), Python state in micro-batch
(`overheating_state`), held equal by one oracle in the tests. No window, no watermark: a wrong clock hides nothing.

What it gets wrong: a kill repeats alerts (their ids are the same). The real-time plan sees through three copies of a
reading; of more, and late, it may take one for new. Neither forgets a rack: about one kilobyte each, on disk.
"""

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import InventoryRack
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.alerts import alert_record
from spark_jobs.dead_letters import or_letters
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.overheating_state import IN_A_ROW, packed_readings, stateful_overheating_changes
from spark_jobs.triggers import Trigger

RULE = "rack-overheating"
COPIES = 3
KEPT_READINGS = (IN_A_ROW + 1) * COPIES
"""The last three before and after a reading are among the last four, each there up to three times."""


def with_threshold(rows: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `threshold_c` of the row's rack: 100 °C where the inventory does not name it."""
    # From Arrow it is a local relation: broadcast without tasks, for which real-time queries leave no slot.
    thresholds = pa.table(
        {
            "rack_id": pa.array([rack.rack_id for rack in inventory], pa.string()),
            "threshold_c": pa.array([rack.threshold_c for rack in inventory], pa.float64()),
        }
    )
    known = rows.join(F.broadcast(rows.sparkSession.createDataFrame(thresholds)), on="rack_id", how="left")
    return known.withColumn("threshold_c", F.coalesce("threshold_c", F.lit(DEFAULT_THRESHOLD_C)))


def with_heat(readings: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `threshold_c` of the rack and `hot`: whether the reading is at or above it."""
    known = with_threshold(readings, inventory)
    return known.withColumn("hot", F.col("temperature_c") >= F.col("threshold_c"))


def overheating_changes(readings: DataFrame) -> DataFrame:
    """Return one row per change of a rack's state, for Real-time Mode, which emits once per reading.

    In: `rack_id`, `site_id`, `event_id`, `sequence`, `event_time`, `temperature_c`, `offset`, `hot`, `threshold_c`.
    Out: `subject`, `site_id`, `warning`, `event_time`, `decider`, `threshold_c` and `evidence`. The aggregate keeps
    the last readings by `sequence`, whatever their order of arrival, and the one that has just arrived; the state
    before it is the state without it.
    """
    reading = F.struct("sequence", "event_id", "offset", "event_time", "temperature_c", "hot")
    kept = readings.select("rack_id", "site_id", "threshold_c", reading.alias("reading")).groupBy("rack_id").agg(
        F.expr(f"max_by(reading, reading.sequence, {KEPT_READINGS})").alias("latest"),
        F.last(F.struct("reading.event_id", "reading.event_time", "site_id", "threshold_c")).alias("arrival"),
    )  # fmt: skip
    arrived = F.col("arrival.event_id")
    ordered = kept.withColumn("latest", F.sort_array("latest", asc=False)).select(
        "rack_id",
        "arrival",
        _is_new(F.col("latest"), arrived).alias("is_new"),
        _distinct(F.col("latest")).alias("distinct"),
    )
    states = ordered.select(
        "rack_id",
        "arrival",
        "is_new",
        F.slice("distinct", 1, IN_A_ROW).alias("last"),
        F.slice(F.filter("distinct", lambda r: r["event_id"] != arrived), 1, IN_A_ROW).alias("last_before"),
    ).select("*", _all_hot("last").alias("warning"), _all_hot("last_before").alias("warning_before"))
    changed = states.where(F.col("is_new") & (F.col("warning") != F.col("warning_before")))
    return changed.select(
        F.col("rack_id").alias("subject"),
        "arrival.site_id",
        "warning",
        "arrival.event_time",
        arrived.alias("decider"),
        "arrival.threshold_c",
        F.transform(F.reverse("last"), _as_evidence).alias("evidence"),
    )


def overheating_decisions(changes: DataFrame) -> DataFrame:
    """Add `state`, `severity` and `summary` to the changes of either plan: all that an alert says."""
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
    return changes.select(
        "*",
        F.when(warning, "WARNING").otherwise("NORMAL").alias("state"),
        F.when(warning, "error").otherwise("info").alias("severity"),
        summary.alias("summary"),
    )


def _is_new(latest: Column, arrived: Column) -> Column:
    """Tell whether the reading that arrived is there once: not a copy, and not older than all that are kept."""
    return F.size(F.filter(latest, lambda reading: reading["event_id"] == arrived)) == 1


def _distinct(latest: Column) -> Column:
    """Keep of each reading the copy that came first: copies stand side by side, the first by offset last."""
    return F.filter(
        latest,
        lambda reading, at: (
            (at == F.size(latest) - 1) | (F.element_at(latest, at + 2)["event_id"] != reading["event_id"])
        ),
    )


def _all_hot(readings: str) -> Column:
    return (F.size(readings) == IN_A_ROW) & F.forall(readings, lambda reading: reading["hot"])


def _as_evidence(reading: Column) -> Column:
    return F.struct(
        reading["event_id"].alias("event_id"),
        reading["sequence"].alias("sequence"),
        reading["event_time"].alias("event_time"),
        reading["temperature_c"].alias("temperature_c"),
    )


def _real_time(readings: DataFrame, options: JobOptions) -> DataFrame:
    changes = overheating_changes(with_heat(readings, options.inventory))
    return overheating_decisions(changes).select(*alert_record(RULE))


def _micro_batch(raw: DataFrame, options: JobOptions) -> DataFrame:
    packed = packed_readings(raw, RACK_READINGS.name)
    changes = stateful_overheating_changes(with_threshold(packed, options.inventory))
    return overheating_decisions(changes).select(*or_letters(alert_record(RULE), ALERTS.name))


JOB = Job(
    name="overheating",
    source=RACK_READINGS,
    sink=ALERTS,
    rules_version="v1",
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: Plan("micro-batch", _micro_batch, ("update",), reads_raw=True),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _micro_batch, ("update",), reads_raw=True),
    },
)
