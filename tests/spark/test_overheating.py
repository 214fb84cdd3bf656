"""The overheating rule as Spark computes it: thresholds, alerts, and both plans against the oracle."""

import json
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

from events.inventory import DEFAULT_THRESHOLD_C
from events.records import InventoryRack, RackReading, encode
from events.times import now_ms, to_ms
from producer.oracle import overheating_alerts
from spark_jobs.job import JobOptions
from spark_jobs.overheating import JOB, overheating_changes, with_heat
from spark_jobs.parsing import parse, readable
from spark_jobs.quick_reading import LONGEST_BYTES
from spark_jobs.triggers import Trigger
from tests.spark.histories import AT, BELOW, COLD, HOT, by_id, deliveries, facts, interleaved, reading
from tests.spark.streams import run_stream
from tests.spark.tables import kafka_table, readings_table, with_field


@pytest.fixture
def many_groups(spark: SparkSession) -> None:
    """Let every prefix of every history have its aggregate in memory: sorted ones would lose the order of arrival."""
    spark.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", "10000000")


def inventory_rack(rack_id: str, threshold_c: float) -> InventoryRack:
    return InventoryRack(
        rack_id=rack_id, site_id="site-a", device_type="gpu", threshold_c=threshold_c, readings_per_second=1.0
    )


def read(spark: SparkSession, history: list[RackReading]) -> DataFrame:
    """Return readings as the jobs read them."""
    return readable(parse(readings_table(spark, history), RackReading))


def test_a_rack_is_hot_from_its_own_threshold_on_and_from_100_without_one(spark: SparkSession) -> None:
    history = [
        reading(1, 85.4, "rack-0001"),
        reading(2, 85.5, "rack-0001"),
        reading(1, BELOW, "rack-0002"),
        reading(2, AT, "rack-0002"),
        reading(1, 109.9, "rack-0003"),
        reading(2, 110.0, "rack-0003"),
    ]
    racks = (
        inventory_rack("rack-0001", 85.5),
        inventory_rack("rack-0003", 110.0),
        inventory_rack("rack-9", 1.0),
    )
    found = with_heat(read(spark, history), racks).orderBy("offset").collect()
    assert [(row["threshold_c"], row["hot"]) for row in found] == [
        (85.5, False),
        (85.5, True),
        (100.0, False),
        (100.0, True),
        (110.0, False),
        (110.0, True),
    ]


def test_without_an_inventory_every_rack_has_100(spark: SparkSession) -> None:
    found = with_heat(read(spark, [reading(1, AT), reading(1, COLD, "rack-0002")]), ()).collect()
    assert sorted((row["rack_id"], row["threshold_c"], row["hot"]) for row in found) == [
        ("rack-0001", 100.0, True),
        ("rack-0002", 100.0, False),
    ]


def test_a_racks_id_is_compared_as_it_is(spark: SparkSession) -> None:
    history = [reading(1, 50.0, rack) for rack in ("rack-1", "RACK-1", "rack-1 ", " rack-1")]
    found = with_heat(read(spark, history), (inventory_rack("rack-1", 40.0),)).collect()
    assert [row["rack_id"] for row in found if row["hot"]] == ["rack-1"]


def test_an_alert_has_every_field_of_the_contract(spark: SparkSession) -> None:
    before = now_ms()
    records = JOB.plans[Trigger.REAL_TIME].records(
        read(spark, [reading(n, HOT) for n in (1, 2, 3)]),
        JobOptions(inventory=(inventory_rack("rack-0001", 104.5),)),
    )
    (record,) = records.collect()
    assert record["key"] == "rack-0001"
    alert = json.loads(record["value"])
    assert before <= to_ms(alert.pop("detected_time")) <= now_ms()
    assert alert == {
        "alert_id": sha256(b"rack-overheating|rack-0001|WARNING|error|rack-0001/3").hexdigest()[:32],
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:06:43.000Z",
        "summary": (
            "Rack rack-0001 is overheating: its last 3 readings are all at or above 104.5 °C, the latest 104.5 °C."
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


def test_an_id_of_other_letters_gives_the_alert_id_that_others_compute(spark: SparkSession) -> None:
    history = [reading(n, HOT, "Gestell-ü|🔥", event_id=f"é|{n}") for n in (1, 2, 3)]
    (record,) = JOB.plans[Trigger.REAL_TIME].records(read(spark, history), JobOptions()).collect()
    identity = "rack-overheating|Gestell-ü|🔥|WARNING|error|é|3"
    assert json.loads(record["value"])["alert_id"] == sha256(identity.encode()).hexdigest()[:32]


# Real-time Mode emits after each reading, a batch once: so every start of a history is a rack of its own here.


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


def last_changes(history: list[RackReading], name: str) -> dict[str, dict[str, Any]]:
    """Return, by the oracle, the alert of each start of a history of which the last reading changed the state."""
    found: dict[str, dict[str, Any]] = {}
    before = 0
    for length in range(1, len(history) + 1):
        alerts = overheating_alerts(history[:length], {})
        if len(alerts) > before:
            found[f"{name}/{length}"] = {"decider": history[length - 1].event_id, **alerts[-1]}
        before = len(alerts)
    return found


def assert_changes_are_the_oracles(spark: SparkSession, histories: list[list[RackReading]]) -> int:
    rows = [start for at, history in enumerate(histories) for start in starts(history, str(at))]
    expected: dict[str, dict[str, Any]] = {}
    for at, history in enumerate(histories):
        expected |= last_changes(history, str(at))
    changes = overheating_changes(with_heat(read(spark, rows), ()))
    found = {row["subject"]: row.asDict(recursive=True) for row in changes.collect()}
    assert found.keys() == expected.keys(), f"differ: {sorted(found.keys() ^ expected.keys())}"
    for subject, change in found.items():
        alert = expected[subject]
        assert change["warning"] == (alert["state"] == "WARNING"), subject
        assert change["decider"] == alert["decider"], subject
        assert change["threshold_c"] == DEFAULT_THRESHOLD_C
        evidence = [(e["event_id"], e["sequence"], e["temperature_c"]) for e in change["evidence"]]
        assert evidence == [(e["event_id"], e["sequence"], e["temperature_c"]) for e in alert["evidence"]], (
            subject
        )
    return len(expected)


@pytest.mark.usefixtures("many_groups")
@settings(max_examples=2, deadline=None, phases=[Phase.reuse, Phase.generate])  # no seed is simpler
@given(st.integers(0, 2**32))
def test_the_built_in_expressions_give_the_changes_of_the_oracle(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    histories = [deliveries(random, readings=random.choice([6, 12, 20])) for _ in range(60)]
    for history in histories[::4]:
        random.shuffle(history)
    assert assert_changes_are_the_oracles(spark, histories) > 60


@pytest.mark.usefixtures("many_groups")
def test_three_copies_of_each_of_the_last_readings_leave_room_for_the_one_before(spark: SparkSession) -> None:
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
    """Return a reading in a form that is read in the JVM."""
    return encode(taken)[:-1] + b',"note":"' + b"-" * LONGEST_BYTES + b'"}'


def test_the_python_state_gives_the_alerts_of_the_oracle_over_several_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(3)
    racks = [f"rack-{number:04d}" for number in range(40)]
    # One rack has more readings in a batch than Spark hands over at once.
    large = [reading(n, HOT if n % 7 < 4 else COLD, "rack-large") for n in range(12_000)]
    histories = [deliveries(random, rack, readings=40) for rack in racks]
    thresholds = dict.fromkeys(racks[:10], BELOW)
    topic = interleaved(random, [*histories, large])
    cuts = [0, 300, 301, 9000, len(topic)]
    unreadable = [b"no JSON", b"", b"\xff", with_field("temperature_c", '"a string"')]
    values = [long_form(taken) if n % 7 == 0 else encode(taken) for n, taken in enumerate(topic)]
    batches = [
        kafka_table(spark, [*values[start:end], *unreadable]).withColumn(
            "offset", F.col("offset") + start * 2
        )
        for start, end in pairwise(cuts)
    ]
    # Rows of a batch come in any order: Kafka's partitions are read side by side.
    shuffled = [batch.orderBy(F.rand(seed=5)) for batch in batches]
    # So many racks that Spark would hand them over in another way if it were left to itself.
    others = dict.fromkeys([f"rack-of-another-hall-{number}" for number in range(60_000)], BELOW)
    inventory = tuple(inventory_rack(*rack) for rack in (thresholds | others).items())
    options = JobOptions(inventory=inventory)

    def alerts(raw: DataFrame) -> DataFrame:
        return JOB.plans[Trigger.MICRO_BATCH].records(raw, options)

    found = run_stream(spark, tmp_path, shuffled, alerts)
    by_topic: dict[str, list[dict[str, Any]]] = {"alerts": [], "dead-letters": []}
    for row in (row for batch in found for row in batch):
        by_topic[row["topic"]].append(json.loads(row["value"]))
        assert row["key"].decode() == by_topic[row["topic"]][-1].get("subject", "rack-0001")
    by_the_job = by_topic["alerts"]
    letters = sorted((letter["offset"], letter["value"]) for letter in by_topic["dead-letters"])
    assert letters == [
        (start + end + at, None if value == b"\xff" else value.decode())
        for start, end in pairwise(cuts)
        for at, value in enumerate(unreadable)
    ]
    expected = overheating_alerts(topic, thresholds)
    assert len(expected) > 3000
    assert len(by_the_job) == len(expected), "each alert once: nothing was run twice"
    assert by_id(by_the_job) == {alert["alert_id"]: facts(alert) for alert in expected}
