"""The rules of racks in Python state, by Spark, against the oracles; the topic cut into batches anywhere."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.records import Alert, InventoryRack, RackReading, encode
from events.rules import LostSignal, Overheating, Rules, SilentSensor, SiteOutage, WeakSignal
from events.times import now_ms, to_ms, to_text
from producer.rule_oracles import (
    in_the_order_taken,
    lost_signal_alerts,
    overheating_state_alerts,
    rule_of,
    silent_sensor_alerts,
    site_outage_alerts,
    weak_signal_alerts,
)
from spark_jobs import lost_signal, overheating, silent_sensor, site_outage, weak_signal
from spark_jobs.job import Job, JobOptions
from spark_jobs.parsing import parse, readable, reject_future
from spark_jobs.triggers import Trigger
from tests.spark.histories import T0, by_id, deliveries, facts, interleaved, reading
from tests.spark.streams import live_stream, run_stream
from tests.spark.tables import kafka_table
from tests.support import eventually

Row = dict[str, Any]
APPENDED_MS = T0 + 3_600_000
RACKS = tuple(
    InventoryRack(
        rack_id=f"rack-{number:04d}",
        site_id="site-a" if number < 4 else "site-b",
        device_type="gpu-server" if number % 2 else "compute-server",
        threshold_c=100.0,
        readings_per_second=1.0,
        severity="warning" if number == 3 else None,
    )
    for number in range(8)
)
INVENTORY = {rack.rack_id: rack for rack in RACKS}


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
    """Return by id what a job makes of records with their append times, taken in batches that end at `cuts`."""
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
    found = run_stream(spark, folder, batches, table_of(job, rules or Rules(), trigger, **more), "append")
    rows = [json.loads(row["value"]) for batch in found for row in batch]
    ids = [row["alert_id"] for row in rows]
    assert len(ids) == len(set(ids)), "an alert came twice"
    return by_id(rows)


def table_of(job: Job, rules: Rules, trigger: Trigger, **more: Any) -> Callable[[DataFrame], DataFrame]:
    """Return what a job makes of Kafka's columns."""
    under = job.under(rules)
    options = under.with_defaults(JobOptions(inventory=RACKS, rules=rules, **more))

    def table(raw: DataFrame) -> DataFrame:
        assert under.source.record is not None
        parsed = parse(raw, under.source.record)
        records = readable(reject_future(parsed) if under.by_event_time else parsed)
        return under.plans[trigger].records(records, options)

    return table


def expected(rows: Sequence[Row]) -> tuple[dict[str, Row], set[str]]:
    """Return by id the alerts that must come, and the ids of those that may."""
    sure = {row["alert_id"]: facts(row) for row in rows if not row.get("either")}
    return sure, {row["alert_id"] for row in rows} - sure.keys()


def assert_as_due(found: dict[str, Row], rows: Sequence[Row], least: int) -> None:
    sure, maybe = expected(rows)
    assert len(sure) >= least, f"only {len(sure)} alerts are due: the history proves little"
    assert {key: row for key, row in found.items() if key not in maybe} == sure


def cuts_of(random: Random, topic: Sequence[Any], batches: int = 4) -> list[int]:
    return sorted(random.sample(range(1, len(topic)), batches - 1))


def with_signals(random: Random, history: list[RackReading]) -> list[RackReading]:
    """Give each event one signal strength, near the bounds of the rule."""
    strength: dict[str, float] = {}
    for each in history:
        strength.setdefault(
            each.event_id, random.choice([0.1, 0.199, 0.2, 0.21, 0.249, 0.25, 0.3, 0.9, 0.15])
        )
        each.signal_strength = strength[each.event_id]
    return history


def a_second_apart(history: Sequence[RackReading]) -> list[tuple[RackReading, int]]:
    return [(each, APPENDED_MS + 1000 * at) for at, each in enumerate(history)]


WEAK_RULES = Rules(
    (
        WeakSignal(racks=("rack-0001",), below=0.3, clear_at=0.5, severity="critical"),
        WeakSignal(device_types=("compute-server",), below=0.15, clear_at=0.2),
    )
)


@pytest.mark.parametrize("rules", [Rules(), WEAK_RULES], ids=["defaults", "a file"])
def test_weak_signal_in_batches(spark: SparkSession, tmp_path: Path, rules: Rules) -> None:
    random = Random(11)
    histories = [
        with_signals(random, deliveries(random, rack.rack_id, readings=60))
        for rack in (*RACKS, _unknown_rack())
    ]
    topic = a_second_apart(interleaved(random, histories))
    found = alerts_of(spark, tmp_path, weak_signal.JOB, topic, cuts_of(random, topic), rules)
    due = weak_signal_alerts((each for each, _ in topic), rule_of(WeakSignal, rules, INVENTORY))
    assert_as_due(found, due, 100)
    assert {row["severity"] for row in found.values()} >= {"info", "error", "warning"}


@pytest.mark.parametrize("rules", [Rules(), WEAK_RULES], ids=["defaults", "a file"])
def test_weak_signal_in_real_time_mode_where_each_reading_is_answered(
    spark: SparkSession, rules: Rules
) -> None:
    """A batch answers once per rack, so each start of a history is a batch of its own here."""
    spark.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", "10000000")
    random = Random(5)
    histories = [with_signals(random, deliveries(random, rack.rack_id, readings=12)) for rack in RACKS]
    found: dict[str, Row] = {}
    longest = max(map(len, histories))
    for length in range(1, longest + 1):
        rows = [each for history in histories if length <= len(history) for each in history[:length]]
        records = table_of(weak_signal.JOB, rules, Trigger.REAL_TIME)(
            kafka_table(spark, [encode(each) for each in rows])
        )
        found |= by_id(json.loads(row["value"]) for row in records.collect())
    due = weak_signal_alerts(
        (each for history in histories for each in history), rule_of(WeakSignal, rules, INVENTORY)
    )
    assert_as_due(found, due, 15)


OVERHEATING_RULES = Rules(
    (
        Overheating(racks=("rack-0001",), count=2, clear_below_c=80.0, rising=2, severity="warning"),
        Overheating(device_types=("gpu-server",), within_s=6, rising=1, critical_after_s=5),
        Overheating(threshold_c=100.0, clear_below_c=99.995, critical_after_s=3),
    )
)


def test_overheating_with_a_file_of_rules(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(8)
    histories = [hotter(random, deliveries(random, rack.rack_id, readings=100)) for rack in RACKS]
    topic = a_second_apart(interleaved(random, histories))
    found = alerts_of(spark, tmp_path, overheating.JOB, topic, cuts_of(random, topic), OVERHEATING_RULES)
    due = overheating_state_alerts(
        (each for each, _ in topic), rule_of(Overheating, OVERHEATING_RULES, INVENTORY)
    )
    assert_as_due(found, due, 100)
    assert {row["severity"] for row in found.values()} == {"critical", "error", "warning", "info"}


def hotter(random: Random, history: list[RackReading]) -> list[RackReading]:
    """Let temperatures of an event go up in steps, so that some keep rising."""
    added: dict[str, float] = {}
    for at, each in enumerate(history):
        added.setdefault(each.event_id, random.choice([0.0, 0.1 * (at % 25)]))
        each.temperature_c = round(each.temperature_c + added[each.event_id], 2)
    return history


def test_lost_signal_by_the_watermark(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(21)
    sent: list[tuple[int, RackReading]] = []
    for rack in (*RACKS[:5], _unknown_rack()):
        spell = 1.0
        for second in range(400):
            if second % 20 == 0:
                spell = random.choice([1.0, 1.0, 0.1, 0.3, 0.0])
            if random.random() < spell:
                arrival_ms = 1000 * second + random.choice([0, 0, 0, 0, 5_000, 20_000])
                measured = reading(second, 70.0, rack.rack_id, site_id=rack.site_id)
                sent += [(arrival_ms, measured) for _ in range(random.choice([1, 1, 1, 2]))]
    sent.sort(key=lambda one: one[0])
    topic = [(measured, T0 + arrival_ms) for arrival_ms, measured in sent]
    found = alerts_of(spark, tmp_path, lost_signal.JOB, topic, cuts_of(random, topic, 6))
    due = lost_signal_alerts(topic, rule_of(LostSignal, Rules(), INVENTORY))
    assert_as_due(found, due, 30)


def test_silences_between_records_and_at_the_end_of_the_topic(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(2)
    rules = Rules((SilentSensor(racks=("rack-0001",), after_s=100, severity="warning"),))
    topic = sorted(
        (
            (reading(second, 70.0, rack.rack_id), APPENDED_MS + 1000 * second + random.randrange(900))
            for number, rack in enumerate(RACKS)
            for second in range(0, 900, 3)
            if (second // 45 + number) % 3
        ),
        key=lambda one: one[1],
    )
    found = alerts_of(spark, tmp_path, silent_sensor.JOB, topic, cuts_of(random, topic), rules)
    due = silent_sensor_alerts(
        topic, rule_of(SilentSensor, rules, INVENTORY), until_ms=max(append_ms for _, append_ms in topic)
    )
    assert_as_due(found, due, 20)


def test_a_silence_is_noticed_by_the_clock_when_all_racks_are_silent(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = Rules((SilentSensor(racks=("rack-0000",), after_s=600), SilentSensor(after_s=1)))
    table = table_of(silent_sensor.JOB, rules, Trigger.MICRO_BATCH)
    start_ms = now_ms()
    first = kafka_table(spark, [encode(reading(1, 70.0, "rack-0001"))], append_ms=[start_ms], first_offset=0)
    with live_stream(spark, tmp_path, first, table, "append") as stream:
        stream.add(first)

        def alerts() -> list[Row]:
            return [json.loads(row["value"]) for batch in stream.found for row in batch]

        silent = eventually(alerts, lambda rows: len(rows) >= 7)
        rows = {row["subject"]: row for row in silent}
        assert sorted(rows) == [rack.rack_id for rack in RACKS[1:]]
        assert rows["rack-0001"]["event_time"] == to_text(start_ms + 1000)
        assert [each["event_id"] for each in rows["rack-0001"]["evidence"]] == ["rack-0001/1"]
        late_ms = {name: to_ms(row["detected_time"]) - to_ms(row["event_time"]) for name, row in rows.items()}
        assert all(late >= silent_sensor.GRACE_MS for late in late_ms.values()), late_ms
        assert [row["evidence"] for name, row in rows.items() if name != "rack-0001"] == [[]] * 6
        after_ms = now_ms()
        back = kafka_table(
            spark, [encode(reading(2, 70.0, "rack-0001"))], append_ms=[after_ms], first_offset=1
        )
        stream.add(back)

        normal = eventually(alerts, lambda rows: rows[-1]["state"] == "NORMAL")[-1]
        assert normal["subject"] == "rack-0001"
        assert f"after {(after_ms - start_ms) / 1000:.1f} s" in normal["summary"]


SITE_RULES = Rules((SiteOutage(share=0.4, within_s=30, severity="critical"),))


@pytest.mark.parametrize("rules", [Rules(), SITE_RULES], ids=["defaults", "a file"])
def test_a_site_is_out(spark: SparkSession, tmp_path: Path, rules: Rules) -> None:
    random = Random(9)
    topic = alert_topic(random)
    found = alerts_of(
        spark, tmp_path, site_outage.JOB, [(_record(row), at) for row, at in topic], rules=rules
    )
    due = site_outage_alerts(in_the_order_taken(topic), RACKS, rules.for_rack(SiteOutage, ""))
    assert_as_due(found, due, 6)


def test_a_site_is_out_by_the_clock_too(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(9)
    topic = alert_topic(random)
    rows = kafka_table(spark, [encode(_record(row)) for row, _ in topic], append_ms=[at for _, at in topic])
    due, _ = expected(site_outage_alerts(in_the_order_taken(topic), RACKS, SiteOutage()))
    table = table_of(site_outage.JOB, Rules(), Trigger.MICRO_BATCH)
    with live_stream(spark, tmp_path, rows, table, "append") as stream:
        stream.add(rows)

        def alerts() -> dict[str, Row]:
            return by_id(json.loads(row["value"]) for batch in stream.found for row in batch)

        eventually(alerts, lambda found: found == due)


def alert_topic(random: Random) -> list[tuple[Row, int]]:
    """Return alerts of the racks' rules that come and go, some of them twice, with their append times."""
    state: dict[tuple[str, str], str] = {}
    topic: list[tuple[Row, int]] = []
    for step in range(600):
        rack = random.choice(RACKS)
        rule = random.choice(["rack-overheating", "silent-sensor", "site-outage"])
        key = (rack.rack_id, rule)
        state[key] = "NORMAL" if state.get(key) == "WARNING" else "WARNING"
        row: Row = {
            "alert_id": f"{step:032x}",
            "rule": rule,
            "subject": random.choice([rack.rack_id, rack.rack_id, rack.rack_id, "rack-unknown"]),
            "site_id": rack.site_id,
            "state": state[key],
            "severity": "error" if state[key] == "WARNING" else "info",
            "event_time": to_text(T0 + 7000 * step + random.choice([0, 0, 30_000])),
            "detected_time": to_text(T0 + 7000 * step),
            "summary": "",
            "evidence": [],
        }
        if row["subject"] == "rack-unknown":
            state[key] = "NORMAL" if state[key] == "WARNING" else "WARNING"
        append_ms = T0 + 7000 * step if step < 300 else T0 + 2_200_000 + 250 * step
        topic += [(row, append_ms) for _ in range(random.choice([1, 1, 2]))]
        if step > 20 and random.random() < 0.1:
            topic.append((random.choice(topic[-20:])[0], append_ms))
    return topic


def _record(row: Row) -> Alert:
    return msgspec.convert(row, Alert)


def _unknown_rack() -> InventoryRack:
    return msgspec.structs.replace(RACKS[0], rack_id="rack-unknown")
