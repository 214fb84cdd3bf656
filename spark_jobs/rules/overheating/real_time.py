"""Express the overheating rule in native Spark expressions, for Real-time Mode.

They evaluate every rule without memory: one whose state follows from the last `count` readings.
"""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.rules.framework.consecutive import consecutive_changes
from spark_jobs.rules.framework.evidence import FIELDS
from spark_jobs.rules.overheating.limits import FleetLimits


def flag_hot(readings: DataFrame, limits: FleetLimits) -> DataFrame:
    """Add `threshold_c` of the rack, and `hot`: whether the reading is at or above it."""
    with_threshold = _add_limit(readings, "rack_id", "threshold_c", limits)
    return with_threshold.withColumn("hot", F.col("temperature_c") >= F.col("threshold_c"))


def overheating_changes(readings: DataFrame, limits: FleetLimits) -> DataFrame:
    """Return one row per change of a rack's state.

    In: `rack_id`, `site_id`, `event_id`, `sequence`, `event_time`, `temperature_c`, `offset`,
    `hot`, `threshold_c`.

    Out: `subject`, `site_id`, `severity` (null for `NORMAL`), `event_time`, `trigger_event_id`,
    `threshold_c`, `count` and `evidence`.
    """
    counts = {limits.default.count, *(own.count for own in limits.by_rack.values())}
    carried: tuple[str, ...] = ("site_id", "threshold_c")
    # The aggregate keeps what is carried in its state: a count only where racks have several.
    if len(counts) > 1:
        readings = _add_limit(readings, "rack_id", "count", limits)
        carried += ("count",)
    changes = consecutive_changes(
        readings.withColumnRenamed("hot", "condition_met"),
        count=max(counts),
        evidence=FIELDS,
        carried=carried,
        own_count="count" if len(counts) > 1 else None,
    )
    if len(counts) == 1:
        changes = changes.withColumn("count", F.lit(limits.default.count))
    with_severity = _add_limit(changes, "subject", "severity", limits)
    return with_severity.withColumn("severity", F.when(F.col("warning"), F.col("severity")))


def _add_limit(rows: DataFrame, key: str, name: str, limits: FleetLimits) -> DataFrame:
    """Add one field of `Limits` for the rack in the column `key`."""
    default = getattr(limits.default, name)
    others = {
        rack_id: value
        for rack_id, own in limits.by_rack.items()
        if (value := getattr(own, name)) != default
    }
    if not others:
        return rows.withColumn(name, F.lit(default))
    # From Arrow it becomes a local relation, which is broadcast without tasks: a real-time query
    # leaves no slot for them.
    table = rows.sparkSession.createDataFrame(
        pa.table({key: pa.array(list(others), pa.string()), name: pa.array(others.values())})
    )
    joined = rows.join(F.broadcast(table), on=key, how="left")
    return joined.withColumn(name, F.coalesce(name, F.lit(default)))
