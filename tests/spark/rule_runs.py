"""Run a rule's job over batches of a topic, and compare its alerts with the oracle's."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.records import InventoryRack, RackReading, encode
from events.rules import Rules
from events.triggers import Trigger
from spark_jobs.runtime.job import Job
from tests.builders import T0, rack
from tests.spark.file_streams import run_stream
from tests.spark.kafka_tables import kafka_table, plan_output
from tests.spark.rack_histories import alerts_by_id, stable_fields

Row = dict[str, Any]
APPENDED_MS = T0 + 3_600_000
RACKS = tuple(
    rack(
        f"rack-{number:04d}",
        site_id="site-a" if number < 4 else "site-b",
        device_type="gpu-server" if number % 2 else "compute-server",
        threshold_c=100.0,
        readings_per_second=1.0,
        severity="warning" if number == 3 else None,
    )
    for number in range(8)
)
INVENTORY = {each.rack_id: each for each in RACKS}


def alerts_of(
    spark: SparkSession,
    folder: Path,
    job: Job,
    topic: Sequence[tuple[Any, int]],
    cuts: Sequence[int] = (),
    rules: Rules | None = None,
    trigger: Trigger = Trigger.AVAILABLE_NOW,
    **more: Any,
) -> dict[str, Row]:
    """Return a job's alerts by id, from records with append times cut into batches."""
    bounds = sorted({0, *cuts, len(topic)})
    batches = [
        kafka_table(
            spark,
            [encode(record) for record, _ in topic[start:end]],
            append_ms=[append_ms for _, append_ms in topic[start:end]],
            first_offset=start,
        ).orderBy(F.rand(seed=start))
        for start, end in pairwise(bounds)
    ]
    table = table_of(job, rules or Rules(), trigger, **more)
    found = run_stream(spark, folder, batches, table, job.plans[trigger].output_modes[0])
    rows = [json.loads(row["value"]) for batch in found for row in batch]
    ids = [row["alert_id"] for row in rows]
    assert len(ids) == len(set(ids)), "an alert came twice"
    return alerts_by_id(rows)


def table_of(
    job: Job,
    rules: Rules,
    trigger: Trigger,
    inventory: Sequence[InventoryRack] = RACKS,
    **more: Any,
) -> Callable[[DataFrame], DataFrame]:
    """Return the query of a job over Kafka's columns."""
    under = job.with_rules(rules)
    options_class: Any = under.options
    options = options_class(inventory=tuple(inventory), rules=rules, **more)
    return lambda raw: plan_output(under, options, trigger, raw)


def expected(rows: Sequence[Row]) -> tuple[dict[str, Row], set[str]]:
    """Return the alerts that must come, by id, and the ids of those that may come."""
    sure = {row["alert_id"]: stable_fields(row) for row in rows if not row.get("either")}
    return sure, {row["alert_id"] for row in rows} - sure.keys()


def assert_expected(found: dict[str, Row], rows: Sequence[Row], least: int) -> None:
    sure, maybe = expected(rows)
    assert len(sure) >= least, f"only {len(sure)} alerts are expected: the history tests too little"
    assert {key: row for key, row in found.items() if key not in maybe} == sure


def cuts_of(random: Random, topic: Sequence[Any], batches: int = 4) -> list[int]:
    return sorted(random.sample(range(1, len(topic)), batches - 1))


def a_second_apart(history: Sequence[RackReading]) -> list[tuple[RackReading, int]]:
    return [(each, APPENDED_MS + 1000 * at) for at, each in enumerate(history)]


def unknown_rack() -> InventoryRack:
    """Return a rack that the inventory does not have."""
    return msgspec.structs.replace(RACKS[0], rack_id="rack-unknown")
