"""What every rule of racks needs of its rows: the topic's order, and the rack as the inventory has it."""

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from events.records import InventoryRack
from events.rules import AnyRule, Kind, Rules

_RACK = {
    "rack_id": pa.string(),
    "site_id": pa.string(),
    "device_type": pa.string(),
    "threshold_c": pa.float64(),
    "readings_per_second": pa.float64(),
    "severity": pa.string(),
}


def racks_table(spark: SparkSession, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Return `rack_id` and `rack`, a struct of the inventory's fields, a row for each rack of the inventory."""
    columns = {
        name: pa.array([getattr(rack, name) for rack in inventory], kind) for name, kind in _RACK.items()
    }
    # From Arrow it is a local relation: broadcast without tasks, for which real-time queries leave no slot.
    racks = spark.createDataFrame(pa.table(columns))
    return racks.select("rack_id", F.struct(*_RACK).alias("rack"))


def with_rack(rows: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `rack`, the inventory's struct for the row's `rack_id`: null where it does not name it."""
    return rows.join(F.broadcast(racks_table(rows.sparkSession, inventory)), on="rack_id", how="left")


def with_severity(changes: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `severity`, that of a `WARNING` of the rack `subject`: the inventory's, or `error`."""
    rated = tuple(rack for rack in inventory if rack.severity)
    if not rated:
        return changes.withColumn("severity", F.lit("error"))
    table = racks_table(changes.sparkSession, rated).select(
        F.col("rack_id").alias("subject"), "rack.severity"
    )
    known = changes.join(F.broadcast(table), on="subject", how="left")
    return known.withColumn("severity", F.coalesce("severity", F.lit("error")))


def ordered_readings(readings: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Return readings as rules in Python state take them, with `rack`.

    In: readable readings with Kafka's columns. Out: `rack_id`; `append_ms`, `partition` and `offset`; the reading's
    fields, `event_time` in epoch microseconds; `timestamp` and `event_at`, both times as timestamps for watermarks.
    """
    selected = readings.select(
        "rack_id",
        F.unix_millis("timestamp").alias("append_ms"),
        "partition",
        "offset",
        "event_id",
        "sequence",
        F.unix_micros("event_time").alias("event_time"),
        "site_id",
        "device_type",
        "temperature_c",
        "signal_strength",
        "timestamp",
        F.col("event_time").alias("event_at"),
    )
    return with_rack(selected, inventory)


def rule_of(rules: Rules, kind: type[Kind], row: Row) -> Kind:
    """Return the rule of a kind for the row's rack."""
    return rules.for_rack(kind, row["rack_id"], row["rack"] and row["rack"]["device_type"])


def severity_of(rule: AnyRule, row: Row) -> str:
    """Return the severity of a `WARNING` for the row's rack."""
    return rule.severity_of(InventoryRack(**row["rack"]) if row["rack"] else None)


def with_rule_fields(
    rows: DataFrame,
    inventory: tuple[InventoryRack, ...],
    rules: Rules,
    kind: type[AnyRule],
    names: tuple[str, ...],
) -> DataFrame:
    """Add the numbers `names` of the rule of a kind for the row's `rack_id`, and its `severity`, as columns."""
    others = rules.for_rack(kind, "")
    defaults = {name: getattr(others, name) for name in names} | {"severity": others.severity_of(None)}
    if not rules.of(kind) and not any(rack.severity for rack in inventory):
        return rows.withColumns({name: F.lit(value) for name, value in defaults.items()})
    chosen = [(rack, rules.for_rack(kind, rack.rack_id, rack.device_type)) for rack in inventory]
    columns = {name: pa.array([getattr(rule, name) for _, rule in chosen], pa.float64()) for name in names}
    columns["rack_id"] = pa.array([rack.rack_id for rack, _ in chosen], pa.string())
    columns["severity"] = pa.array([rule.severity_of(rack) for rack, rule in chosen], pa.string())
    table = F.broadcast(rows.sparkSession.createDataFrame(pa.table(columns)))
    known = rows.join(table, on="rack_id", how="left")
    return known.withColumns({name: F.coalesce(name, F.lit(value)) for name, value in defaults.items()})
