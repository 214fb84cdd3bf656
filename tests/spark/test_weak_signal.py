"""The rule weak-signal run by Spark in both modes: the oracle's alerts come out."""

import json
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from events.records import RackReading, encode
from events.rules import Rules, WeakSignal
from events.triggers import Trigger
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.weak_signal import weak_signal_alerts
from spark_jobs.rules import weak_signal
from tests.spark.kafka_tables import kafka_table
from tests.spark.rack_histories import alerts_by_id, deliveries, interleaved
from tests.spark.rule_runs import (
    INVENTORY,
    RACKS,
    Row,
    a_second_apart,
    alerts_of,
    assert_expected,
    cuts_of,
    table_of,
    unknown_rack,
)


def with_signal_strengths(random: Random, history: list[RackReading]) -> list[RackReading]:
    """Give each event one signal strength near the rule's bounds."""
    strength: dict[str, float] = {}
    for each in history:
        strength.setdefault(
            each.event_id, random.choice([0.1, 0.199, 0.2, 0.21, 0.249, 0.25, 0.3, 0.9, 0.15])
        )
        each.signal_strength = strength[each.event_id]
    return history


WEAK_RULES = Rules(
    (
        WeakSignal(racks=("rack-0001",), below=0.3, clear_at=0.5, severity="critical"),
        WeakSignal(device_types=("compute-server",), below=0.15, clear_at=0.2),
    )
)
RULES = [
    pytest.param(Rules(), id="defaults"),
    pytest.param(WEAK_RULES, id="rules file", marks=pytest.mark.full),
]


@pytest.mark.parametrize("rules", RULES)
def test_weak_signal_in_micro_batches_gives_the_alerts_of_the_oracle(
    spark: SparkSession, tmp_path: Path, rules: Rules
) -> None:
    random = Random(11)
    histories = [
        with_signal_strengths(random, deliveries(random, rack.rack_id, readings=60))
        for rack in (*RACKS, unknown_rack())
    ]
    topic = a_second_apart(interleaved(random, histories))
    found = alerts_of(spark, tmp_path, weak_signal.JOB, topic, cuts_of(random, topic), rules)
    due = weak_signal_alerts((each for each, _ in topic), rule_lookup(WeakSignal, rules, INVENTORY))
    assert_expected(found, due, 100)
    assert {row["severity"] for row in found.values()} >= {"info", "error", "warning"}


def test_the_sentences_name_the_rack_and_the_strength_that_decided(spark: SparkSession) -> None:
    schema = "subject string, state string, evidence array<struct<signal_strength: double>>"
    changes = [("rack-1", "WARNING", [(0.9,), (0.1996,)]), ("rack-1", "NORMAL", [(0.25,)])]
    rows = weak_signal.add_summary(spark.createDataFrame(changes, schema)).collect()
    assert [row["summary"] for row in rows] == [
        "Rack rack-1 has a weak signal: its strength is 0.200.",
        "Rack rack-1 has a good signal again: its strength is 0.250.",
    ]


@pytest.mark.usefixtures("many_groups")
def test_weak_signal_in_real_time_mode_gives_the_alerts_of_the_oracle(spark: SparkSession) -> None:
    """A batch emits once per rack, so each start of a history is a rack of its own here."""
    random = Random(5)
    histories = {
        rack.rack_id: with_signal_strengths(random, deliveries(random, rack.rack_id, readings=12))
        for rack in RACKS
    }
    starts = [
        (replace(rack, rack_id=f"{rack.rack_id}/{length}"), histories[rack.rack_id][:length])
        for rack in RACKS
        for length in range(1, len(histories[rack.rack_id]) + 1)
    ]
    named, *others = WEAK_RULES.rules
    own = tuple(rack.rack_id for rack, _ in starts if rack.rack_id.split("/")[0] in named.racks)
    rules = Rules((replace(named, racks=own), *others))
    lookup = rule_lookup(WeakSignal, rules, {rack.rack_id: rack for rack, _ in starts})
    readings: list[RackReading] = []
    due: list[Row] = []
    for rack, start in starts:
        taken = [replace(each, rack_id=rack.rack_id) for each in start]
        readings += taken
        # The job ignores readings between the bounds, and emits for the last of the others.
        rule = lookup(rack.rack_id)
        conclusive = [
            each for each in taken if not rule.below <= each.signal_strength < rule.clear_at
        ]
        earlier = weak_signal_alerts(conclusive[:-1], lookup)
        due += weak_signal_alerts(conclusive, lookup)[len(earlier) :]
    table = table_of(
        weak_signal.JOB, rules, Trigger.REAL_TIME, inventory=[rack for rack, _ in starts]
    )
    records = table(kafka_table(spark, [encode(each) for each in readings]))
    found = alerts_by_id(json.loads(row["value"]) for row in records.collect())
    assert_expected(found, due, 15)
