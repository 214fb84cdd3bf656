"""The jobs of rules on a real broker, killed while they run: exactly the expected alerts."""

import json
import signal
from collections import Counter
from collections.abc import Set
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.catalog import (
    LOST_SIGNAL,
    RACK_OVERHEATING,
    RULE_JOBS,
    SILENT_SENSOR,
    SITE_OUTAGE,
    WEAK_SIGNAL,
)
from events.inventory import read_inventory
from events.records import InventoryRack, RackReading
from events.rules import LostSignal, Overheating, SilentSensor, SiteOutage, WeakSignal, read_rules
from events.times import to_ms, to_text
from events.topics import ALERTS, RACK_READINGS, RACK_TEMPERATURE
from producer.expected.oracles.lost_signal import lost_signal_alerts
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from producer.expected.oracles.site_outage import processing_order, site_outage_alerts
from producer.expected.oracles.weak_signal import weak_signal_alerts
from tests.integration.test_jobs import Pipeline, family_of, left_out, none_is_left
from tests.spark.mixed_topic import FIVE_MINUTES_MS
from tests.spark.rack_histories import alerts_by_id, stable_fields
from tests.support import Kafka, eventually, kill, program, run

pytestmark = pytest.mark.full

Row = dict[str, Any]
Places = Set[tuple[int, int]]
"""Partition and offset of some records."""
WATERMARK_S = 12
"""Short, so that most windows of a short run are closed; longer than any reading here is late."""
WINDOW_MS = 5000
RACK_RULES = (RACK_OVERHEATING, WEAK_SIGNAL, LOST_SIGNAL, SILENT_SENSOR)
"""The rules with an oracle in `Rules.due` and a fault in the scenario; another one is not run."""
RACK_JOBS = tuple(RULE_JOBS[rule] for rule in RACK_RULES)
SCENARIO = """
racks: 12
sites: 2
rate: 120
duration: 45
seed: 3
faults:
  - {fault: silence, racks: [rack-0001, rack-0002, rack-0003, rack-0004], start_s: 12, length_s: 12,
     every_s: null}
  - {fault: lossy, racks: [rack-0010], start_s: 10, length_s: 16, every_s: null, arriving: 0.05}
  - {fault: weak-signal, racks: [rack-0011, rack-0012], start_s: 5, length_s: 3, every_s: 8}
  - {fault: overheating, racks: [rack-0005, rack-0006], start_s: 3, length_s: 3, every_s: 6}
  # Four of six racks of a site for a third of the run: an outage even if a job starts slowly.
  - {fault: overheating, racks: [rack-0007, rack-0008, rack-0009, rack-0012], start_s: 15,
     length_s: 20, every_s: null}
  - {fault: duplicate, share: 0.03}
  - {fault: late, share: 0.02, max_s: 5}
  - {fault: out-of-order, share: 0.03}
  - {fault: future, share: 0.005}
"""
RULES = """
rules:
  - {rule: silent-sensor, racks: [rack-0004], after_s: 6}
  - {rule: silent-sensor, racks: [rack-0001, rack-0002, rack-0003], after_s: 4}
  # The silence after the last reading must not keep the overheated site in WARNING.
  - {rule: silent-sensor, after_s: 3600}
  - {rule: rack-overheating, rising: 2, critical_after_s: 1}
"""
MALFORMED = b"{"


def readings_of(kafka: Kafka) -> list[tuple[RackReading, int]]:
    """Return the well-formed readings in their topic's order, with append times in epoch ms."""
    return [
        (msgspec.json.decode(record.value or b"", type=RackReading), record.timestamp_ms)
        for record in kafka.read_all(RACK_READINGS)
        if record.value != MALFORMED
    ]


class Rules:
    """The expected alerts of what the topics hold, and the alerts that came."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.inventory = read_inventory(folder / "racks.jsonl")
        self.rules = read_rules(folder / "rules.yaml", self.inventory)

    def due(self) -> tuple[dict[str, Row], set[str]]:
        """Return by id the racks' alerts that must come, and the ids of those that may come."""
        records = readings_of(self.kafka)
        readings = [reading for reading, _ in records]
        racks: dict[str, InventoryRack] = {rack.rack_id: rack for rack in self.inventory}
        rows = [
            *overheating_alerts(readings, rule_lookup(Overheating, self.rules, racks)),
            *weak_signal_alerts(readings, rule_lookup(WeakSignal, self.rules, racks)),
            *lost_signal_alerts(
                records, rule_lookup(LostSignal, self.rules, racks), watermark_ms=WATERMARK_S * 1000
            ),
            *silent_sensor_alerts(
                records, rule_lookup(SilentSensor, self.rules, racks), inventory=racks
            ),
        ]
        sure = {row["alert_id"]: stable_fields(row) for row in rows if not row.get("either")}
        return sure, {row["alert_id"] for row in rows} - sure.keys()

    def alerts(self, after: Places = frozenset()) -> list[Row]:
        """Return the alerts as their topic holds them, without those at the places given."""
        return [
            json.loads(record.value or b"")
            for record in self.kafka.read_all(ALERTS)
            if (record.partition, record.offset) not in after and record.value != MALFORMED
        ]

    def places(self) -> Places:
        """Return partition and offset of each alert that the topic holds now."""
        return {(record.partition, record.offset) for record in self.kafka.read_all(ALERTS)}

    def wrong(
        self, due: tuple[dict[str, Row], set[str]], after: Places = frozenset()
    ) -> tuple[list[Row], list[Row]]:
        """Return the alerts of racks that are missing, and those that were not due.

        Only alerts that came after those at the places given count.
        """
        sure, maybe = due
        found = alerts_by_id(row for row in self.alerts(after) if row["rule"] != SITE_OUTAGE)
        found = {key: row for key, row in found.items() if key not in maybe}
        missing = [row for key, row in sure.items() if found.get(key) != row]
        return missing, [row for key, row in found.items() if sure.get(key) != row]

    def count_of_the_future(self) -> int:
        """Return how many readings are more than five minutes ahead of their append time."""
        count = sum(
            to_ms(reading.event_time) > append_ms + FIVE_MINUTES_MS
            for reading, append_ms in readings_of(self.kafka)
        )
        assert count > 0
        return count

    def site_outages(self) -> tuple[dict[str, Row], dict[str, Row]]:
        """Return by id the outages that came, and those that follow from the other alerts."""
        records = [
            (json.loads(record.value or b""), record.timestamp_ms)
            for record in self.kafka.read_all(ALERTS)
            if record.value != MALFORMED
        ]
        alerts = [row for row, _ in records]
        due = site_outage_alerts(
            processing_order(records), self.inventory, self.rules.for_rack(SiteOutage, "")
        )
        return alerts_by_id(row for row in alerts if row["rule"] == SITE_OUTAGE), alerts_by_id(due)


def test_the_rules_hold_through_kills_and_in_a_replay(topics: Kafka, tmp_path: Path) -> None:
    for name, text in (("scenario.yaml", SCENARIO), ("rules.yaml", RULES)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    inventory = tmp_path / "racks.jsonl"
    world = ("--scenario", tmp_path / "scenario.yaml", "--inventory", inventory)
    assert run("producer", "world", *world).returncode == 0
    rules = Rules(topics, tmp_path)
    pipeline = Pipeline(topics, tmp_path)
    files = (f"--inventory={inventory}", f"--rules={tmp_path / 'rules.yaml'}")
    given = (*files, f"--watermark={WATERMARK_S} seconds")
    live = ("--trigger=micro-batch", "--read-tasks=1", "--rules-batch-seconds=5", *given)

    def count(rule: str) -> int:
        return sum(row["rule"] == rule for row in rules.alerts())

    with program(
        "producer", "run", *world, env=topics.env, output=tmp_path / "producer.log"
    ) as producer:
        with pipeline.running(*live, jobs=RACK_JOBS) as process:
            pipeline.until(process, lambda: count(SILENT_SENSOR) and count(RACK_OVERHEATING))
        with pipeline.running(*live, jobs=RACK_JOBS) as process:
            eventually(producer.poll, lambda status: status == 0, timeout_s=120)
            rack_alerts = rules.due()
            # On a slow machine the killed driver may have written every alert.
            pipeline.until(process, lambda: pipeline.started(RACK_JOBS))
            pipeline.until(process, lambda: rules.wrong(rack_alerts) == ([], []))
            family = family_of(process)
            assert kill(process, signal.SIGINT) == 130
            none_is_left(family)

    sure, _ = rack_alerts
    changes = {(row["rule"], row["state"]) for row in sure.values()}
    assert changes == set(product(RACK_RULES, ("WARNING", "NORMAL")))
    assert {row["severity"] for row in sure.values()} == {"critical", "error", "info"}

    topics.send(RACK_READINGS, [("rack-0001", MALFORMED)] * 3)
    topics.send(ALERTS, [("rack-0001", MALFORMED)])
    progress = tmp_path / "progress.jsonl"
    jobs = (*RACK_JOBS, RULE_JOBS[SITE_OUTAGE])
    closed_windows = ("--output-mode=append", "--window=5 seconds", "--slide=5 seconds")
    once = pipeline.command(
        *("--trigger=available-now", f"--progress={progress}", *given, *closed_windows),
        jobs=(*jobs, "rack_temperature"),
    )
    replay = [*once, f"--checkpoint-root={tmp_path / 'replay'}"]
    before = rules.places()
    done = run(*replay, env=pipeline.env, timeout_s=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert rules.wrong(rack_alerts, before) == ([], []), "the replay writes each alert again"
    assert alerts_by_id(rules.alerts()), "the records of one alert are equal"

    assert {job: left_out(progress, job) for job in jobs} == {
        **dict.fromkeys(RACK_JOBS, 3),
        RULE_JOBS[LOST_SIGNAL]: 3 + rules.count_of_the_future(),  # it works by event time
        RULE_JOBS[SITE_OUTAGE]: 1,
    }

    found, due = rules.site_outages()
    assert {row["state"] for row in due.values()} == {"WARNING", "NORMAL"}
    assert found == due
    alerts_are_cloud_events(topics)
    windows_are_written_when_they_are_closed(topics)


def alerts_are_cloud_events(kafka: Kafka) -> None:
    """Check the headers of every alert."""
    records = [record for record in kafka.read_all(ALERTS) if record.value != MALFORMED]
    assert {json.loads(record.value or b"")["rule"] for record in records} == {
        *RACK_RULES,
        SITE_OUTAGE,
    }
    for record in records:
        alert = json.loads(record.value or b"")
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


def windows_are_written_when_they_are_closed(kafka: Kafka) -> None:
    """Check that each window up to the watermark came once, and says that it is closed."""
    counts, latest_ms = Counter[str](), 0
    for reading, append_ms in readings_of(kafka):
        event_ms = to_ms(reading.event_time)
        if event_ms <= append_ms + FIVE_MINUTES_MS:
            latest_ms = max(latest_ms, event_ms)
            end_ms = event_ms - event_ms % WINDOW_MS + WINDOW_MS
            for scope in ("fleet", reading.rack_id):
                counts[f"{scope}|{to_text(end_ms - WINDOW_MS)}|{to_text(end_ms)}"] += 1
    closed_by = to_text(latest_ms - WATERMARK_S * 1000)
    due = {key: count for key, count in counts.items() if key.rpartition("|")[2] <= closed_by}
    assert len(counts) > len(due) > 13
    records = kafka.read_all(RACK_TEMPERATURE)
    found = [
        ((record.key or b"").decode(), json.loads(record.value or b"")["reading_count"])
        for record in records
    ]
    assert sorted(found) == sorted(due.items())
    assert {record.headers for record in records} == {(("window-state", b"closed"),)}
