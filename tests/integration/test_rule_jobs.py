"""The rules' jobs against a real broker, killed while they run: each alert that the oracles ask for, and no other."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition

from broker.server import RunningBroker
from broker.topics import create_topics
from events.inventory import read_inventory
from events.records import InventoryRack, RackReading
from events.rules import LostSignal, Overheating, SilentSensor, SiteOutage, WeakSignal, read_rules
from events.times import to_ms
from events.topics import ALERTS, RACK_READINGS
from producer.rule_oracles import (
    in_the_order_taken,
    lost_signal_alerts,
    overheating_state_alerts,
    rule_of,
    silent_sensor_alerts,
    site_outage_alerts,
    weak_signal_alerts,
)
from tests.integration.test_jobs import Pipeline
from tests.spark.histories import by_id, facts
from tests.support import Kafka, eventually, program, run

pytestmark = pytest.mark.broker

Row = dict[str, Any]
WATERMARK_S = 12
"""Shorter than usual, so that most windows of a short run are closed; longer than a reading here can be late."""
RACK_JOBS = ("overheating", "weak_signal", "lost_signal", "silent_sensor")
SCENARIO = """
racks: 12
sites: 2
rate: 120
duration: 45
seed: 3
faults:
  - {fault: silence, racks: [rack-0001, rack-0002, rack-0003, rack-0004], start_s: 12, length_s: 12, every_s: null}
  - {fault: lossy, racks: [rack-0010], start_s: 10, length_s: 16, every_s: null, arriving: 0.05}
  - {fault: weak-signal, racks: [rack-0011, rack-0012], start_s: 5, length_s: 3, every_s: 8}
  - {fault: overheating, racks: [rack-0005, rack-0006], start_s: 3, length_s: 3, every_s: 6}
  - {fault: duplicate, share: 0.03}
  - {fault: late, share: 0.02, max_s: 5}
  - {fault: out-of-order, share: 0.03}
  - {fault: future, share: 0.005}
"""
RULES = """
rules:
  - {rule: silent-sensor, racks: [rack-0004], after_s: 6}
  - {rule: silent-sensor, after_s: 4}
  - {rule: rack-overheating, rising: 2, critical_after_s: 1}
"""


class Rules:
    """What the rules ask of what the topics hold."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.inventory = read_inventory(folder / "racks.jsonl")
        self.rules = read_rules(folder / "rules.yaml", self.inventory)

    def due(self) -> tuple[dict[str, Row], set[str]]:
        """Return by id the alerts of racks that must come, and the ids of those that may."""
        held = [
            (msgspec.json.decode(record.value or b"", type=RackReading), record.timestamp_ms)
            for record in self.kafka.read_all(RACK_READINGS)
        ]
        readings = [reading for reading, _ in held]
        racks: dict[str, InventoryRack] = {rack.rack_id: rack for rack in self.inventory}
        rows = [
            *overheating_state_alerts(readings, rule_of(Overheating, self.rules, racks)),
            *weak_signal_alerts(readings, rule_of(WeakSignal, self.rules, racks)),
            *lost_signal_alerts(
                held, rule_of(LostSignal, self.rules, racks), watermark_ms=WATERMARK_S * 1000
            ),
            *silent_sensor_alerts(held, rule_of(SilentSensor, self.rules, racks), inventory=racks),
        ]
        sure = {row["alert_id"]: facts(row) for row in rows if not row.get("either")}
        return sure, {row["alert_id"] for row in rows} - sure.keys()

    def alerts(self) -> list[Row]:
        """Return the alerts as their topic holds them."""
        return [json.loads(record.value or b"") for record in self.kafka.read_all(ALERTS)]

    def wrong(self) -> tuple[list[Row], list[Row]]:
        """Return the alerts of racks that are missing, and those that were not due."""
        sure, maybe = self.due()
        found = by_id(row for row in self.alerts() if row["rule"] != "site-outage")
        found = {key: row for key, row in found.items() if key not in maybe}
        missing = [row for key, row in sure.items() if found.get(key) != row]
        return missing, [row for key, row in found.items() if sure.get(key) != row]

    def site_outages(self) -> tuple[dict[str, Row], dict[str, Row]]:
        """Return by id the outages that came, and those that had to by what the topic of alerts holds."""
        held = [
            (json.loads(record.value or b""), record.timestamp_ms) for record in self.kafka.read_all(ALERTS)
        ]
        alerts = [row for row, _ in held]
        due = site_outage_alerts(
            in_the_order_taken(held), self.inventory, self.rules.for_rack(SiteOutage, "")
        )
        return by_id(row for row in alerts if row["rule"] == "site-outage"), by_id(due)


def test_the_rules_hold_through_kills_and_in_a_replay(broker: RunningBroker, tmp_path: Path) -> None:
    kafka = Kafka(broker.bootstrap, f"rules-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    for name, text in (("scenario.yaml", SCENARIO), ("rules.yaml", RULES)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    inventory = tmp_path / "racks.jsonl"
    world = ("--scenario", tmp_path / "scenario.yaml", "--inventory", inventory)
    assert run("producer", "world", *world, "--readings-per-second=10").returncode == 0
    rules = Rules(kafka, tmp_path)
    pipeline = Pipeline(kafka, tmp_path)
    given = (
        f"--inventory={inventory}",
        f"--rules={tmp_path / 'rules.yaml'}",
        f"--watermark={WATERMARK_S} seconds",
    )

    def count(rule: str) -> int:
        return sum(row["rule"] == rule for row in rules.alerts())

    with program("producer", "run", *world, env=kafka.env, output=tmp_path / "producer.log") as producer:
        with pipeline.running("--trigger=micro-batch", *given, jobs=RACK_JOBS) as process:
            pipeline.until(process, lambda: count("silent-sensor") and count("rack-overheating"))
        with pipeline.running("--trigger=micro-batch", *given, jobs=RACK_JOBS) as process:
            eventually(producer.poll, lambda status: status == 0, timeout_s=120)
            pipeline.until(process, lambda: rules.wrong() == ([], []))

    sure, _ = rules.due()
    changes = {(row["rule"], row["state"]) for row in sure.values()}
    assert len(changes) == 8, changes
    assert {row["severity"] for row in sure.values()} == {"critical", "error", "info"}

    once = pipeline.command("--trigger=available-now", *given, jobs=(*RACK_JOBS, "site_outage"))
    replay = [*once, f"--checkpoint-root={tmp_path / 'replay'}"]
    done = run(*replay, env=pipeline.env, timeout_s=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert rules.wrong() == ([], [])

    with pipeline.running("--trigger=micro-batch", *given, jobs=("site_outage",)) as process:
        pipeline.until(process, lambda: rules.site_outages()[0].keys() >= rules.site_outages()[1].keys())
    found, due = rules.site_outages()
    assert {row["state"] for row in due.values()} == {"WARNING", "NORMAL"}
    assert found == due


def test_weak_signals_are_told_in_real_time_and_through_a_kill(broker: RunningBroker, tmp_path: Path) -> None:
    kafka = Kafka(broker.bootstrap, f"weak-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    pipeline = Pipeline(kafka, tmp_path)
    faults = ("weak-signal=4,start_s=0,length_s=3,every_s=5", "duplicate=0.05", "out-of-order=0.05")
    load = ("--racks=12", "--rate=max", "--count=2000", *(f"--fault={f}" for f in faults))

    def due() -> dict[str, Row]:
        held = [
            msgspec.json.decode(record.value or b"", type=RackReading)
            for record in kafka.read_all(RACK_READINGS)
        ]
        return by_id(weak_signal_alerts(held, lambda _: WeakSignal()))

    def found() -> dict[str, Row]:
        return by_id(json.loads(record.value or b"") for record in kafka.read_all(ALERTS))

    for seed, batch in ((1, 60), (2, 5)):
        assert run("producer", "run", f"--seed={seed}", *load, env=kafka.env).returncode == 0
        options = ("--trigger=real-time", f"--batch-seconds={batch}")
        with pipeline.running(*options, jobs=("weak_signal",)) as process:
            pipeline.until(process, lambda: found() == due())
    assert len(due()) > 40


def test_alerts_are_cloud_events(broker: RunningBroker, tmp_path: Path) -> None:
    kafka = Kafka(broker.bootstrap, f"events-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    pipeline = Pipeline(kafka, tmp_path)
    faults = [f"--fault={name}=2,start_s=0" for name in ("weak-signal", "overheating")]
    inventory = f"--inventory={tmp_path / 'racks.jsonl'}"
    load = ("--racks=5", "--rate=max", "--count=500", *faults, inventory)
    assert run("producer", "run", *load, env=kafka.env).returncode == 0
    command = pipeline.command("--trigger=available-now", inventory, jobs=("overheating", "weak_signal"))
    done = run(*command, env=pipeline.env)
    assert done.returncode == 0, done.stderr[-2000:]
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign([TopicPartition(kafka.name(ALERTS), number) for number in range(ALERTS.partitions)])
    records: list[Any] = []
    expected = len(kafka.read_all(ALERTS))
    while len(records) < expected:
        for batch in consumer.poll(timeout_ms=1000).values():
            records += batch
    consumer.close()
    assert {json.loads(record.value)["rule"] for record in records} == {"rack-overheating", "weak-signal"}
    for record in records:
        alert = json.loads(record.value)
        headers = {name: value.decode() for name, value in record.headers}
        assert headers == {
            "ce_specversion": "1.0",
            "ce_type": "rackstream.alert",
            "ce_source": f"/rackstream/rules/{alert['rule']}",
            "ce_id": alert["alert_id"],
            "ce_time": alert["event_time"],
            "content-type": "application/json",
        }
        assert to_ms(headers["ce_time"]) == to_ms(alert["event_time"])
