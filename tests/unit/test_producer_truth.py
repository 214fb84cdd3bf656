"""The truth of a run: from acknowledged records only, in the order in which the topic holds them."""

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from events.records import RackReading
from events.times import to_ms
from producer.oracle import overheating_alerts, temperature_windows
from producer.plan import Mark, Plan
from producer.scenario import load_scenario, parse_fault
from producer.schedule import make_schedule
from producer.truth import Acknowledged, Sent, write_truth
from producer.world import make_world

T0 = 1_795_000_000_000
PARTITIONS = 3
FAULTS = (
    "overheating=4,start_s=2,length_s=6,every_s=15",
    "late=0.03",
    "out-of-order=0.05",
    "duplicate=0.05",
    "malformed=0.01",
)


class Topic:
    """A topic in memory: it acknowledges what it takes, and holds it."""

    def __init__(self, plan: Plan, takes: Callable[[int], bool] = lambda _: True) -> None:
        self.acknowledged = Acknowledged()
        self.held: list[tuple[int, int, int, bytes]] = []
        ends = [0] * PARTITIONS
        for batch in plan.batches():
            rows = zip(
                batch.slots.tolist(),
                batch.numbers.tolist(),
                batch.marks.tolist(),
                batch.keys,
                batch.values,
                strict=True,
            )
            for slot, number, marks, key, value in rows:
                if takes(len(self.held)):
                    partition = zlib.crc32(key) % PARTITIONS
                    append_ms = T0 + slot * 10
                    self.acknowledged.add(number, marks, partition, ends[partition], append_ms)
                    self.held.append((append_ms, partition, ends[partition], value))
                    ends[partition] += 1

    def readings(self) -> list[RackReading]:
        """Return what can be read, in the topic's order."""
        found = []
        for *_, value in sorted(self.held, key=lambda row: row[:3]):
            try:
                found.append(msgspec.json.decode(value, type=RackReading))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        return found


def plan_of(*faults: str) -> Plan:
    schedule = make_schedule(rate=100.0, clock_rate=20, now_ms=T0, count=6000)
    return Plan(make_world(1, 20), schedule, [parse_fault(fault) for fault in faults], 1)


def truth_of(
    tmp_path: Path, plan: Plan, acknowledged: Acknowledged, flush: RackReading | None = None
) -> dict[str, list[dict[str, Any]]]:
    path = tmp_path / "truth.jsonl"
    write_truth(path, [Sent(plan, acknowledged, flush)], {"sent": 1})
    rows: dict[str, list[dict[str, Any]]] = {"summary": [], "alert": [], "dead-letter": [], "window": []}
    for line in path.read_bytes().splitlines():
        row = msgspec.json.decode(line)
        rows[row.pop("kind")].append(row)
    return rows


def thresholds(plan: Plan) -> dict[str, float]:
    return {rack.rack_id: rack.threshold_c for rack in plan.world.inventory(1.0)}


def by_id(alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(alerts, key=lambda alert: str(alert["alert_id"]))


def test_alerts_and_windows_are_those_of_the_records_that_the_topic_holds(tmp_path: Path) -> None:
    plan = plan_of(*FAULTS)
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    assert len(truth["alert"]) > 30
    assert by_id(truth["alert"]) == by_id(overheating_alerts(topic.readings(), thresholds(plan)))
    assert truth["window"] == temperature_windows(topic.readings())


def test_what_was_not_acknowledged_is_not_in_the_truth(tmp_path: Path) -> None:
    plan = plan_of(*FAULTS)
    whole = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    part = Topic(plan, takes=lambda place: place < 3000)
    truth = truth_of(tmp_path, plan, part.acknowledged)
    assert by_id(truth["alert"]) == by_id(overheating_alerts(part.readings(), thresholds(plan)))
    assert 0 < len(truth["alert"]) < len(whole["alert"])
    fleet = [row["reading_count"] for row in truth["window"] if row["scope"] == "fleet"]
    assert max(fleet) == len(part.readings())


def test_dead_letters_are_named_by_where_they_lie(tmp_path: Path) -> None:
    plan = plan_of("malformed=0.01", "duplicate=0.5")
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    unread = set()
    for _, partition, offset, value in topic.held:
        try:
            msgspec.json.decode(value, type=RackReading)
        except (msgspec.DecodeError, UnicodeDecodeError):
            unread.add((partition, offset, len(value)))
    assert len(unread) > 60
    assert {(row["partition"], row["offset"], row["value_size"]) for row in truth["dead-letter"]} == unread
    assert {(row["source_topic"], row["jobs"]) for row in truth["dead-letter"]} == {("rack-readings", "all")}
    assert len({row["error_kind"] for row in truth["dead-letter"]}) == 13


def test_readings_from_the_future_are_dead_letters_by_event_time_only(tmp_path: Path) -> None:
    plan = plan_of("future=0.01", "hovering=20,within_c=1")
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    values = {(partition, offset): value for _, partition, offset, value in topic.held}
    assert len(truth["dead-letter"]) == 60
    for row in truth["dead-letter"]:
        assert (row["error_kind"], row["jobs"]) == ("future", "by-event-time")
        assert row["value_size"] == len(values[row["partition"], row["offset"]])
    assert by_id(truth["alert"]) == by_id(overheating_alerts(topic.readings(), thresholds(plan)))
    assert max(row["reading_count"] for row in truth["window"]) == 6000 - 60
    latest = max(row["window_end"] for row in truth["window"])
    assert latest <= "2026-11-18T11:20:00.000Z"


def test_only_windows_that_a_too_late_record_belongs_to_are_in_doubt(tmp_path: Path) -> None:
    plan = plan_of("too-late=0.001")
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    doubted = [row for row in truth["window"] if row.get("either")]
    assert Counter(row["scope"] == "fleet" for row in doubted)[True] > 0
    assert all(row["window_end"] <= "2026-11-18T11:00:00.000Z" for row in doubted), "15 min before the start"
    sure = [row for row in truth["window"] if "either" not in row]
    late_fleet = sum(row["reading_count"] for row in doubted if row["scope"] == "fleet")
    assert late_fleet == 2 * 6, "each of the six lies in two windows"
    assert {row["window_end"] for row in sure} == {"2026-11-18T11:10:00.000Z", "2026-11-18T11:15:00.000Z"}


def test_the_flush_record_is_in_doubt_wherever_it_counts(tmp_path: Path) -> None:
    plan = plan_of()
    flush = RackReading(
        event_id="flush",
        event_time="2026-11-18T11:08:00.000Z",
        rack_id="flush",
        sequence=1,
        site_id="flush",
        device_type="flush",
        temperature_c=20.0,
        signal_strength=1.0,
    )
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged, flush)
    doubted = {(row["scope"], row["window_start"][11:16]) for row in truth["window"] if row.get("either")}
    assert doubted == {(scope, start) for scope in ("fleet", "flush") for start in ("11:00", "11:05")}


def test_a_run_that_sent_nothing_has_a_truth_too(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, plan_of(*FAULTS), Acknowledged())
    assert truth == {
        "summary": [{"sent": 1, "alerts": 0, "dead_letters": 0, "windows": 0}],
        "alert": [],
        "dead-letter": [],
        "window": [],
    }


def test_the_topics_order_is_append_time_then_partition_then_offset() -> None:
    acknowledged = Acknowledged()
    rows = [(1, 0, 1, 5, 20), (2, 0, 0, 9, 20), (3, 0, 1, 4, 20), (4, 0, 2, 0, 10)]
    for row in rows:
        acknowledged.add(*row)
    assert acknowledged.in_topic_order()[:, 0].tolist() == [4, 2, 3, 1]
    assert np.array_equal(acknowledged.in_topic_order()[0], rows[3])


def test_the_demo_scenario_happens_within_a_minute(tmp_path: Path) -> None:
    demo = load_scenario(Path(__file__).parents[2] / "producer" / "scenarios" / "demo.yaml", {}, [])
    assert isinstance(demo.rate, float)
    schedule = make_schedule(rate=demo.rate, clock_rate=demo.racks, now_ms=T0, duration_s=60)
    plan = Plan(make_world(demo.seed, demo.racks, demo.sites), schedule, demo.faults, 1)
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    states = Counter(alert["state"] for alert in truth["alert"])
    assert min(states["WARNING"], states["NORMAL"]) >= 10
    assert len({alert["subject"] for alert in truth["alert"]}) == 2
    assert min(to_ms(alert["event_time"]) for alert in truth["alert"]) - T0 < 6_000
    rows = topic.acknowledged.in_topic_order()
    assert np.count_nonzero(rows[:, 1] & Mark.COPY) >= 100
    assert np.count_nonzero(rows[:, 1] & Mark.LATE) >= 100
    spoiled = rows[(rows[:, 1] & Mark.MALFORMED) > 0]
    assert spoiled[0, 4] - T0 < 10_000
    assert not any(row.get("either") for row in truth["window"])
