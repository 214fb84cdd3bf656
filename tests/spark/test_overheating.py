"""The overheating rule run by Spark: thresholds, alerts, and both plans against the oracle."""

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.records import RackReading, encode
from events.rules import Overheating, Rules
from events.times import now_ms, to_ms
from events.triggers import Trigger
from producer.expected.oracles.overheating import overheating_alerts
from spark_jobs.rules.overheating.job import JOB
from spark_jobs.rules.overheating.limits import FleetLimits, Limits, fleet_limits
from spark_jobs.rules.overheating.real_time import flag_hot, overheating_changes
from spark_jobs.runtime.options import RuleOptions
from spark_jobs.runtime.parsing import parse, readable
from spark_jobs.runtime.parsing._arrow import MAX_VALUE_BYTES
from tests.builders import rack, reading, rules_by_threshold
from tests.spark.file_streams import run_stream
from tests.spark.kafka_tables import kafka_table, plan_output, readings_table, with_field
from tests.spark.rack_histories import (
    AT,
    BELOW,
    COLD,
    HOT,
    alerts_by_id,
    deliveries,
    interleaved,
    stable_fields,
)
from tests.support import examples

DEFAULTS = FleetLimits(Limits(), {})


def read(spark: SparkSession, history: list[RackReading]) -> DataFrame:
    """Return readings as the jobs read them."""
    return readable(parse(readings_table(spark, history), RackReading, in_jvm=True))


def test_a_rack_is_hot_at_its_own_threshold_or_at_100_without_one(
    spark: SparkSession,
) -> None:
    history = [
        reading(1, 85.4, "rack-0001"),
        reading(2, 85.5, "rack-0001"),
        reading(1, BELOW, "rack-0002"),
        reading(2, AT, "rack-0002"),
        reading(1, 109.9, "rack-0003"),
        reading(2, 110.0, "rack-0003"),
    ]
    racks = (
        rack("rack-0001", threshold_c=85.5),
        rack("rack-0003", threshold_c=110.0),
        rack("rack-9", threshold_c=1.0),
    )
    found = flag_hot(read(spark, history), fleet_limits(racks, Rules())).orderBy("offset").collect()
    assert [(row["threshold_c"], row["hot"]) for row in found] == [
        (85.5, False),
        (85.5, True),
        (100.0, False),
        (100.0, True),
        (110.0, False),
        (110.0, True),
    ]


def test_without_an_inventory_every_rack_has_a_threshold_of_100(spark: SparkSession) -> None:
    found = flag_hot(
        read(spark, [reading(1, AT), reading(1, COLD, "rack-0002")]), DEFAULTS
    ).collect()
    assert sorted((row["rack_id"], row["threshold_c"], row["hot"]) for row in found) == [
        ("rack-0001", 100.0, True),
        ("rack-0002", 100.0, False),
    ]


def test_a_rack_id_is_compared_without_trimming_or_case_folding(spark: SparkSession) -> None:
    history = [reading(1, 50.0, name) for name in ("rack-1", "RACK-1", "rack-1 ", " rack-1")]
    found = flag_hot(
        read(spark, history), fleet_limits((rack("rack-1", threshold_c=40.0),), Rules())
    ).collect()
    assert [row["rack_id"] for row in found if row["hot"]] == ["rack-1"]


def test_an_alert_has_every_field_of_the_contract(spark: SparkSession) -> None:
    before = now_ms()
    records = JOB.plans[Trigger.REAL_TIME].records(
        read(spark, [reading(n, HOT) for n in (1, 2, 3)]),
        RuleOptions(inventory=(rack("rack-0001", threshold_c=104.5),)),
    )
    (record,) = records.collect()
    assert record["key"] == "rack-0001"
    alert = json.loads(record["value"])
    assert before <= to_ms(alert.pop("detected_time")) <= now_ms()
    assert alert == {
        "alert_id": sha256(b"rack-overheating|rack-0001|WARNING|error|rack-0001/3").hexdigest()[
            :32
        ],
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:06:43.000Z",
        "summary": (
            "Rack rack-0001 is overheating: 3 consecutive readings were at or above "
            "104.5 °C, and the latest is 104.5 °C."
        ),
        "evidence": [
            {
                "event_id": f"rack-0001/{n}",
                "sequence": n,
                "event_time": f"2026-11-18T11:06:4{n}.000Z",
                "temperature_c": 104.5,
            }
            for n in (1, 2, 3)
        ],
    }


def test_the_real_time_plan_says_what_has_changed_in_one_sentence(spark: SparkSession) -> None:
    hot = [reading(n, celsius, "rack-hot") for n, celsius in enumerate((98.5, 99.0, 101.5))]
    cold = [reading(n, celsius, "rack-cold") for n, celsius in enumerate((104.5, 100, 100, 99.5))]
    options = RuleOptions(inventory=(rack("rack-hot", threshold_c=98.5),))
    plan = JOB.plans[Trigger.REAL_TIME]
    alerts = [
        json.loads(row["value"])
        for row in plan.records(read(spark, [*hot, *cold]), options).collect()
    ]
    assert {(alert["subject"], alert["state"]): alert["summary"] for alert in alerts} == {
        ("rack-hot", "WARNING"): "Rack rack-hot is overheating: 3 consecutive readings were at or "
        "above 98.5 °C, and the latest is 101.5 °C.",
        ("rack-cold", "NORMAL"): "Rack rack-cold is back to normal: no longer 3 consecutive "
        "readings at or above 100.0 °C, the latest 99.5 °C.",
    }


def test_an_alert_id_is_the_hash_of_utf8_text(spark: SparkSession) -> None:
    history = [reading(n, HOT, "Gestell-ü|🔥", event_id=f"é|{n}") for n in (1, 2, 3)]
    (record,) = JOB.plans[Trigger.REAL_TIME].records(read(spark, history), RuleOptions()).collect()
    identity = "rack-overheating|Gestell-ü|🔥|WARNING|error|é|3"
    assert json.loads(record["value"])["alert_id"] == sha256(identity.encode()).hexdigest()[:32]


# Real-time Mode emits after each reading, and a batch only once. So every start of a history is a
# rack of its own here.


def starts(history: list[RackReading], name: str) -> list[RackReading]:
    """Return each start of a history as the readings of a rack of its own."""
    return [
        reading(
            taken.sequence,
            taken.temperature_c,
            f"{name}/{length}",
            event_id=taken.event_id,
            event_time=taken.event_time,
        )
        for length in range(1, len(history) + 1)
        for taken in history[:length]
    ]


def last_changes(
    history: list[RackReading], name: str, rule: Overheating
) -> dict[str, dict[str, Any]]:
    """Return the oracle's alert for each start of a history that ends in a change."""
    found: dict[str, dict[str, Any]] = {}
    before = 0
    for length in range(1, len(history) + 1):
        alerts = overheating_alerts(history[:length], lambda _: rule)
        if len(alerts) > before:
            found[f"{name}/{length}"] = {
                "trigger_event_id": history[length - 1].event_id,
                **alerts[-1],
            }
        before = len(alerts)
    return found


def assert_changes_are_the_oracles(
    spark: SparkSession,
    histories: list[list[RackReading]],
    rules: Sequence[Overheating] = (Overheating(),),
) -> int:
    """Compare the changes of each history with the oracle's; the histories take turns by rule."""
    rows: list[RackReading] = []
    expected: dict[str, dict[str, Any]] = {}
    by_rack: dict[str, Limits] = {}
    for at, history in enumerate(histories):
        rule = rules[at % len(rules)]
        of_the_history = starts(history, str(at))
        rows += of_the_history
        expected |= last_changes(history, str(at), rule)
        limits = fleet_limits((), Rules((rule,))).default
        by_rack |= {taken.rack_id: limits for taken in of_the_history}
    fleet = FleetLimits(Limits(), by_rack if len(rules) > 1 else {})
    changes = overheating_changes(flag_hot(read(spark, rows), fleet), fleet)
    found = {row["subject"]: row.asDict(recursive=True) for row in changes.collect()}
    assert found.keys() == expected.keys(), f"differ: {sorted(found.keys() ^ expected.keys())}"
    for subject, change in found.items():
        alert, limits = expected[subject], by_rack[subject]
        severity = None if alert["state"] == "NORMAL" else alert["severity"]
        assert change["severity"] == severity, subject
        assert change["trigger_event_id"] == alert["trigger_event_id"], subject
        assert (change["threshold_c"], change["count"]) == (limits.threshold_c, limits.count)
        evidence = [(e["event_id"], e["sequence"], e["temperature_c"]) for e in change["evidence"]]
        assert evidence == [
            (e["event_id"], e["sequence"], e["temperature_c"]) for e in alert["evidence"]
        ], subject
    return len(expected)


@pytest.mark.usefixtures("many_groups")
@settings(examples(10), phases=[Phase.reuse, Phase.generate])  # no seed is simpler
@given(st.integers(0, 2**32))
def test_the_native_expressions_give_the_changes_of_the_oracle(
    spark: SparkSession, seed: int
) -> None:
    random = Random(seed)
    histories = [deliveries(random, readings=random.choice([6, 12, 20])) for _ in range(60)]
    for history in histories[::4]:
        random.shuffle(history)
    assert assert_changes_are_the_oracles(spark, histories) > 60


@pytest.mark.usefixtures("many_groups")
def test_racks_with_rules_of_their_own_give_the_changes_of_the_oracle(spark: SparkSession) -> None:
    random = Random(11)
    histories = [deliveries(random, readings=20) for _ in range(40)]
    rules = (
        Overheating(),
        Overheating(count=1, threshold_c=HOT),
        Overheating(count=2, severity="warning"),
        Overheating(count=5, threshold_c=BELOW, severity="critical"),
    )
    assert assert_changes_are_the_oracles(spark, histories, rules) > 60


@pytest.mark.usefixtures("many_groups")
def test_three_copies_of_each_reading_do_not_displace_an_earlier_reading(
    spark: SparkSession,
) -> None:
    hot = [reading(n, HOT) for n in (1, 2, 3, 4)]
    thrice = [measured for measured in hot for _ in range(3)]
    late_cold = reading(5, COLD)
    assert_changes_are_the_oracles(
        spark,
        [
            [*thrice, late_cold, late_cold, late_cold],
            [*hot[1:], *hot[1:], *hot[1:], hot[0], hot[0], hot[0], late_cold],
            [late_cold, *reversed(thrice), late_cold],
            [*hot[:2], hot[3], hot[3], hot[3], hot[2], late_cold, hot[2], hot[2]],
        ],
    )


def long_form(taken: RackReading) -> bytes:
    """Return a reading so long that the strict parser reads it."""
    return encode(taken)[:-1] + b',"note":"' + b"-" * MAX_VALUE_BYTES + b'"}'


def test_the_micro_batch_plan_gives_the_alerts_of_the_oracle_over_several_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(3)
    racks = [f"rack-{number:04d}" for number in range(40)]
    # One rack has more readings in a batch than Spark passes to Python at once.
    large = [reading(n, HOT if n % 7 < 4 else COLD, "rack-large") for n in range(12_000)]
    histories = [deliveries(random, name, readings=40) for name in racks]
    summarised = [
        reading(n, celsius, "rack-summary") for n, celsius in enumerate((98.5, 99, 101.5, 70))
    ]
    thresholds = {**dict.fromkeys(racks[:10], BELOW), "rack-summary": 98.5}
    topic = interleaved(random, [*histories, large, summarised])
    cuts = [0, 300, 301, 9000, len(topic)]
    unreadable = [b"no JSON", b"", b"\xff", with_field("temperature_c", '"a string"')]
    values = [long_form(taken) if n % 7 == 0 else encode(taken) for n, taken in enumerate(topic)]
    batches = [
        kafka_table(spark, [*values[start:end], *unreadable]).withColumn(
            "offset", F.col("offset") + start * 2
        )
        for start, end in pairwise(cuts)
    ]
    # Rows of a batch come in any order, as Kafka's partitions are read in parallel.
    shuffled = [batch.orderBy(F.rand(seed=5)) for batch in batches]
    # So many racks that Spark would not broadcast them by itself.
    others = dict.fromkeys([f"rack-of-another-hall-{number}" for number in range(60_000)], BELOW)
    inventory = tuple(
        rack(name, threshold_c=celsius) for name, celsius in (thresholds | others).items()
    )
    options = RuleOptions(inventory=inventory)

    def alerts(raw: DataFrame) -> DataFrame:
        return plan_output(JOB, options, Trigger.MICRO_BATCH, raw)

    found = run_stream(spark, tmp_path, shuffled, alerts)
    rows = [row for batch in found for row in batch]
    alerts_found: list[dict[str, Any]] = [json.loads(row["value"]) for row in rows]
    assert [row["key"] for row in rows] == [alert["subject"] for alert in alerts_found]
    expected = overheating_alerts(topic, rules_by_threshold(thresholds))
    assert len(expected) > 3000
    assert len(alerts_found) == len(expected), "an alert came twice: something was evaluated twice"
    assert alerts_by_id(alerts_found) == {
        alert["alert_id"]: stable_fields(alert) for alert in expected
    }
    sentences = [a["summary"] for a in alerts_found if a["subject"] == "rack-summary"]
    assert sentences == [
        "Rack rack-summary is overheating: 3 consecutive readings were at or above 98.5 °C, "
        "and the latest is 101.5 °C.",
        "Rack rack-summary is back to normal: no longer 3 consecutive readings at or above "
        "98.5 °C, the latest 70.0 °C.",
    ]
