"""The truth of a run: from acknowledged records only, in the order in which the topic holds them."""

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from events.cli import PersonError
from events.records import RackReading
from events.rules import LostSignal, Overheating, Rules, SilentSensor, WeakSignal
from events.times import to_ms
from producer.held import Acknowledged, Sent
from producer.oracle import overheating_alerts, temperature_windows
from producer.plan import Mark, Plan
from producer.rule_oracles import (
    lost_signal_alerts,
    overheating_state_alerts,
    rule_of,
    silent_sensor_alerts,
    weak_signal_alerts,
)
from producer.scenario import load_scenario, parse_fault
from producer.schedule import make_schedule
from producer.truth import write_truth
from producer.truth_alerts import Wanted, names_of
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
        return [reading for reading, _ in self.appended()]

    def appended(self) -> list[tuple[RackReading, int]]:
        """Return the same with append times."""
        found = []
        for append_ms, *_, value in sorted(self.held, key=lambda row: row[:3]):
            try:
                found.append((msgspec.json.decode(value, type=RackReading), append_ms))
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        return found


def plan_of(*faults: str) -> Plan:
    schedule = make_schedule(rate=100.0, clock_rate=20, now_ms=T0, count=6000)
    return Plan(make_world(1, 20), schedule, [parse_fault(fault) for fault in faults], 1)


def truth_of(
    tmp_path: Path,
    plan: Plan,
    acknowledged: Acknowledged,
    flush: RackReading | None = None,
    wanted: Wanted | None = None,
) -> dict[str, list[dict[str, Any]]]:
    path = tmp_path / "truth.jsonl"
    write_truth(path, [Sent(plan, acknowledged, flush)], {"sent": 1}, wanted)
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


EVENTFUL = (
    "overheating=4,start_s=5,length_s=14,every_s=25",
    "weak-signal=4,start_s=2,length_s=10,every_s=20",
    "silence=[rack-0001,rack-0002,rack-0003,rack-0004],start_s=10,length_s=40,every_s=100",
    "silence=[rack-0005,rack-0006,rack-0007,rack-0008],start_s=0.6,length_s=8.8,every_s=20",
    "late=0.03,max_s=5",
    "out-of-order=0.05",
    "duplicate=0.05,max_s=2",
    "malformed=0.01",
    "future=0.005",
    "too-late=0.002",
)
RULES = Rules(
    (
        Overheating(clear_below_c=60.0, rising=1, critical_after_s=10.0),
        WeakSignal(device_types=("gpu-server", "storage-array"), below=0.1, clear_at=0.3, severity="warning"),
        LostSignal(readings=4, window_s=2.0),
        SilentSensor(after_s=20.0),
    )
)


@pytest.mark.parametrize("rules", [Rules(), RULES], ids=["defaults", "rules"])
def test_each_rules_alerts_are_what_its_oracle_says_of_the_whole_topic(tmp_path: Path, rules: Rules) -> None:
    """The truth takes rack by rack what the oracles are given at once here, from the bytes that the topic holds."""
    plan = plan_of(*EVENTFUL)
    topic = Topic(plan)
    racks = {rack.rack_id: rack for rack in plan.world.inventory(5.0)}
    records, readings = topic.appended(), topic.readings()
    expected = {
        "rack-overheating": overheating_state_alerts(readings, rule_of(Overheating, rules, racks))
        if rules.rules
        else overheating_alerts(readings, thresholds(plan)),
        "weak-signal": weak_signal_alerts(readings, rule_of(WeakSignal, rules, racks)),
        "lost-signal": lost_signal_alerts(records, rule_of(LostSignal, rules, racks)),
        "silent-sensor": silent_sensor_alerts(records, rule_of(SilentSensor, rules, racks), inventory=racks),
    }
    for name, rows in expected.items():
        truth = truth_of(tmp_path, plan, topic.acknowledged, wanted=Wanted((name,), rules))
        assert by_id(truth["alert"]) == by_id(rows)
        assert len([row for row in rows if not row.get("either")]) >= 8, name
    together = truth_of(tmp_path, plan, topic.acknowledged, wanted=Wanted(tuple(expected), rules))
    assert by_id(together["alert"]) == by_id([row for rows in expected.values() for row in rows])
    assert together["summary"][0]["alerts"] == len(together["alert"])


def test_what_is_late_while_its_rack_is_silent_leaves_lost_signal_in_doubt(tmp_path: Path) -> None:
    """By its rack's latest it is in time, by the fleet's it is not."""
    plan = plan_of("silence=4,start_s=21,length_s=60,every_s=100", "late=0.1,max_s=40")
    topic = Topic(plan)
    racks = {rack.rack_id: rack for rack in plan.world.inventory(5.0)}
    rules = Rules((LostSignal(readings=8, window_s=2.0),))
    rows = lost_signal_alerts(topic.appended(), rule_of(LostSignal, rules, racks))
    truth = truth_of(tmp_path, plan, topic.acknowledged, wanted=Wanted(("lost-signal",), rules))
    assert by_id(truth["alert"]) == by_id(rows)
    assert any(row.get("either") for row in rows)


def test_without_being_asked_for_more_the_truth_has_the_contracts_alerts_only(tmp_path: Path) -> None:
    plan = plan_of(*EVENTFUL)
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    assert {row["rule"] for row in truth["alert"]} == {"rack-overheating"}
    assert not any(row.get("either") for row in truth["alert"])


def test_a_flush_record_closes_windows_and_its_own_silence_is_in_doubt(tmp_path: Path) -> None:
    plan = plan_of()
    topic = Topic(plan, takes=lambda place: place < 5990)
    _, flush = plan.flush_record(T0 + 120_000)
    wanted = Wanted(("lost-signal", "silent-sensor"))
    path = tmp_path / "truth.jsonl"
    sent = Sent(plan, topic.acknowledged, flush, flush_append_ms=T0 + 120_001)
    write_truth(path, [sent], {}, wanted)
    rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    found = [row for row in rows if row["kind"] == "alert" and row["subject"] == "flush"]
    assert [(row["rule"], row["state"], row["event_time"], row["either"]) for row in found] == [
        ("silent-sensor", "WARNING", "2026-11-18T11:09:10.001Z", True)
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rack-overheating", ("rack-overheating",)),
        ("weak-signal, silent-sensor", ("weak-signal", "silent-sensor")),
    ],
)
def test_rules_are_named_with_commas(text: str, names: tuple[str, ...]) -> None:
    assert names_of(text) == names


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "weak-signal,nonsense",
            "--alerts-of weak-signal,nonsense: there is no rule 'nonsense', but rack-overh",
        ),
        (
            "",
            "--alerts-of : there is no rule '', but rack-overheating, weak-signal, lost-signal, silent-sensor.",
        ),
        (
            "site-outage",
            "site-outage follows from alerts, not from readings, so that the producer cannot tell",
        ),
    ],
)
def test_a_rule_that_readings_say_nothing_of_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(PersonError, match=complaint):
        names_of(text)
