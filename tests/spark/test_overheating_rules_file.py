"""The overheating rule with a rules file, run by Spark: the oracle's alerts."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from events.records import RackReading
from events.rules import Overheating, Rules
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rule_lookup import rule_lookup
from spark_jobs.rules.overheating import job as overheating
from tests.spark.rack_histories import deliveries, interleaved
from tests.spark.rule_runs import (
    INVENTORY,
    RACKS,
    a_second_apart,
    alerts_of,
    assert_expected,
    cuts_of,
)

OVERHEATING_RULES = Rules(
    (
        Overheating(
            racks=("rack-0001",), count=2, clear_below_c=80.0, rising=2, severity="warning"
        ),
        Overheating(device_types=("gpu-server",), within_s=6, rising=1, critical_after_s=5),
        Overheating(threshold_c=100.0, clear_below_c=99.995, critical_after_s=3),
    )
)


@pytest.mark.full
def test_overheating_with_a_rules_file_gives_the_alerts_of_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(8)
    histories = [hotter(random, deliveries(random, rack.rack_id, readings=100)) for rack in RACKS]
    topic = a_second_apart(interleaved(random, histories))
    found = alerts_of(
        spark, tmp_path, overheating.JOB, topic, cuts_of(random, topic), OVERHEATING_RULES
    )
    due = overheating_alerts(
        (each for each, _ in topic), rule_lookup(Overheating, OVERHEATING_RULES, INVENTORY)
    )
    assert_expected(found, due, 100)
    assert {row["severity"] for row in found.values()} == {"critical", "error", "warning", "info"}


def hotter(random: Random, history: list[RackReading]) -> list[RackReading]:
    """Raise the temperatures in steps, so that some keep rising."""
    added: dict[str, float] = {}
    for at, each in enumerate(history):
        added.setdefault(each.event_id, random.choice([0.0, 0.1 * (at % 25)]))
        each.temperature_c = round(each.temperature_c + added[each.event_id], 2)
    return history
