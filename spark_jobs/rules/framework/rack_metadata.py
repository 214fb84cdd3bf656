"""Join readings with the inventory and with the rules that apply to each rack."""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type

from events.records import InventoryRack
from events.rules import AnyRule, Kind, Rules
from events.spark_schemas import spark_schema


def join_rack(rows: DataFrame, inventory: tuple[InventoryRack, ...]) -> DataFrame:
    """Add `rack`, the inventory's struct for `rack_id`; null for a rack that it does not name."""
    columns = {
        field.name: pa.array(
            [getattr(rack, field.name) for rack in inventory], to_arrow_type(field.dataType)
        )
        for field in spark_schema(InventoryRack)
    }
    # From Arrow it becomes a local relation, which is broadcast without tasks: a real-time query
    # leaves no slot for them.
    table = rows.sparkSession.createDataFrame(pa.table(columns))
    racks = table.select("rack_id", F.struct(*columns).alias("rack"))
    return rows.join(F.broadcast(racks), on="rack_id", how="left")


class RackMetadata(NamedTuple):
    """A rack's id, and its entry in the inventory; None for a rack that it does not name."""

    rack_id: str
    rack: InventoryRack | None


def effective_rule(rules: Rules, kind: type[Kind], row: RackMetadata) -> Kind:
    """Return the rule of a kind that applies to a rack."""
    return rules.for_rack(kind, row.rack_id, row.rack.device_type if row.rack else None)


def add_rule_fields(
    rows: DataFrame,
    inventory: tuple[InventoryRack, ...],
    rules: Rules,
    kind: type[AnyRule],
    names: tuple[str, ...],
) -> DataFrame:
    """Add the numeric fields `names` and the `severity` of the rule that applies to `rack_id`."""
    default_rule = rules.for_rack(kind, "")
    defaults = {name: getattr(default_rule, name) for name in names} | {
        "severity": default_rule.severity_of(None)
    }
    if not rules.of(kind) and not any(rack.severity for rack in inventory):
        return rows.withColumns({name: F.lit(value) for name, value in defaults.items()})
    rules_by_rack = [
        (rack, rules.for_rack(kind, rack.rack_id, rack.device_type)) for rack in inventory
    ]
    columns = {
        name: pa.array([getattr(rule, name) for _, rule in rules_by_rack], pa.float64())
        for name in names
    }
    columns["rack_id"] = pa.array([rack.rack_id for rack, _ in rules_by_rack], pa.string())
    columns["severity"] = pa.array(
        [rule.severity_of(rack) for rack, rule in rules_by_rack], pa.string()
    )
    table = F.broadcast(rows.sparkSession.createDataFrame(pa.table(columns)))
    joined = rows.join(table, on="rack_id", how="left")
    return joined.withColumns(
        {name: F.coalesce(name, F.lit(value)) for name, value in defaults.items()}
    )
