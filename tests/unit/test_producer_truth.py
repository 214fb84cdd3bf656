"""The truth of a run: acknowledged records only, in the topic's order."""

import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from broker.server import free_port
from events import catalog
from events.cli import UserFacingError
from events.records import InventoryRack, RackReading
from events.rules import LostSignal, Overheating, Rules, SilentSensor, WeakSignal
from events.settings import Settings
from events.times import to_ms
from producer.expected.oracles.lost_signal import lost_signal_alerts
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rack_temperature import temperature_windows
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.signal_statistics import signal_statistics
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from producer.expected.oracles.weak_signal import weak_signal_alerts
from producer.expected.rack_alerts import AlertSelection, parse_rule_names
from producer.expected.topic_contents import AcknowledgedRecords, PublishedStream, TopicContents
from producer.expected.truth import check_writable, truth_rows, write_truth
from producer.pacing.schedule import make_schedule
from producer.run import run
from producer.scenario import Scenario, load_scenario, parse_fault
from producer.streams.reading_plan import ReadingPlan
from producer.streams.stream_plan import FaultFlag
from producer.world.racks import make_world
from tests.builders import T0, reading
from tests.unit.clickstream import batch_rows, decoded

PARTITIONS = 3
FAULTS = (
    "overheating=4,start_s=2,length_s=6,every_s=15",
    "late=0.03",
    "out-of-order=0.05",
    "duplicate=0.05",
    "malformed=0.01",
)


class Topic:
    """A topic in memory that acknowledges the records it accepts."""

    def __init__(
        self,
        plan: ReadingPlan,
        accepts: Callable[[int], bool] = lambda _: True,
        start_ms: int = T0,
    ) -> None:
        self.acknowledged = AcknowledgedRecords()
        self.contents: list[tuple[int, int, int, bytes]] = []
        ends = [0] * PARTITIONS
        for batch in plan.batches():
            for row in batch_rows(batch):
                if accepts(len(self.contents)):
                    partition = zlib.crc32(row.key) % PARTITIONS
                    append_ms, offset = start_ms + row.slot * 10, ends[partition]
                    self.acknowledged.add(row.number, row.flags, partition, offset, append_ms)
                    self.contents.append((append_ms, partition, offset, row.value))
                    ends[partition] += 1

    def readings(self) -> list[RackReading]:
        """Return the readable records, in the topic's order."""
        return [reading for reading, _ in self.appended()]

    def appended(self) -> list[tuple[RackReading, int]]:
        """Return the readable records with append times, in the topic's order."""
        found = []
        for append_ms, *_, value in sorted(self.contents, key=lambda row: row[:3]):
            if (reading := decoded(value, RackReading)) is not None:
                found.append((reading, append_ms))
        return found


def plan_of(*faults: str, start_ms: int = T0, first_sequence: int = 1) -> ReadingPlan:
    schedule = make_schedule(rate=100.0, clock_rate=20, now_ms=start_ms, count=6000)
    parsed = [parse_fault(fault) for fault in faults]
    return ReadingPlan(make_world(1, 20), schedule, parsed, first_sequence)


def truth_of(
    tmp_path: Path,
    plan: ReadingPlan,
    acknowledged: AcknowledgedRecords,
    flush: RackReading | None = None,
    selection: AlertSelection | None = None,
) -> dict[str, list[dict[str, Any]]]:
    path = tmp_path / "truth.jsonl"
    write_truth(
        path,
        [PublishedStream(plan, acknowledged, flush, T0 + 10**6 if flush else None)],
        {"sent": 1},
        selection,
    )
    rows: dict[str, list[dict[str, Any]]] = {
        "summary": [],
        "alert": [],
        "dead-letter": [],
        "window": [],
        "signal-statistic": [],
    }
    for line in path.read_bytes().splitlines():
        row = msgspec.json.decode(line)
        rows[row.pop("kind")].append(row)
    return rows


def default_rules(plan: ReadingPlan) -> Callable[[str], Overheating]:
    racks = {rack.rack_id: rack for rack in plan.world.inventory(1.0)}
    return rule_lookup(Overheating, Rules(), racks)


def by_id(alerts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return alerts without what the truth adds to them, in an order of their own."""
    rows = [{k: v for k, v in alert.items() if k != "decidable_time"} for alert in alerts]
    return sorted(rows, key=lambda alert: str(alert["alert_id"]))


def alerts_by_oracle(
    records: list[tuple[RackReading, int]],
    rules: Rules,
    racks: dict[str, InventoryRack],
    watermark_ms: int,
) -> dict[str, list[dict[str, Any]]]:
    """Return the alerts of these rules, by rule; the oracles get the whole topic at once.

    They stand for every rule: one decided by order alone shares its branch with `weak-signal`.
    """
    readings = [reading for reading, _ in records]
    return {
        "rack-overheating": overheating_alerts(readings, rule_lookup(Overheating, rules, racks)),
        "weak-signal": weak_signal_alerts(readings, rule_lookup(WeakSignal, rules, racks)),
        "lost-signal": lost_signal_alerts(
            records, rule_lookup(LostSignal, rules, racks), watermark_ms=watermark_ms
        ),
        "silent-sensor": silent_sensor_alerts(
            records, rule_lookup(SilentSensor, rules, racks), inventory=racks
        ),
    }


def test_alerts_and_windows_are_those_of_the_topics_contents(tmp_path: Path) -> None:
    plan = plan_of(*FAULTS)
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    assert len(truth["alert"]) > 30
    assert by_id(truth["alert"]) == by_id(overheating_alerts(topic.readings(), default_rules(plan)))
    assert truth["window"] == temperature_windows(topic.readings())
    assert truth["signal-statistic"] == signal_statistics(topic.readings())


def test_unacknowledged_records_are_not_in_the_truth(tmp_path: Path) -> None:
    plan = plan_of(*FAULTS)
    whole = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    part = Topic(plan, accepts=lambda place: place < 3000)
    truth = truth_of(tmp_path, plan, part.acknowledged)
    assert by_id(truth["alert"]) == by_id(overheating_alerts(part.readings(), default_rules(plan)))
    assert 0 < len(truth["alert"]) < len(whole["alert"])
    fleet = [row["reading_count"] for row in truth["window"] if row["scope"] == "fleet"]
    assert max(fleet) == len(part.readings())


def test_dead_letters_have_their_position_in_the_topic(tmp_path: Path) -> None:
    plan = plan_of("malformed=0.01", "duplicate=0.5")
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    unread = {
        (partition, offset, len(value))
        for _, partition, offset, value in topic.contents
        if decoded(value, RackReading) is None
    }
    assert len(unread) > 60
    assert {
        (row["partition"], row["offset"], row["value_size"]) for row in truth["dead-letter"]
    } == unread
    assert {(row["source_topic"], row["reason"]) for row in truth["dead-letter"]} == {
        ("rack-readings", "unreadable")
    }
    assert len({row["error_kind"] for row in truth["dead-letter"]}) == 13


def test_future_readings_are_dead_letters_and_count_by_sequence_only(tmp_path: Path) -> None:
    plan = plan_of("future=0.01", "hovering=20,within_c=1")
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    values = {(partition, offset): value for _, partition, offset, value in topic.contents}
    assert len(truth["dead-letter"]) == 60
    for row in truth["dead-letter"]:
        assert (row["error_kind"], row["reason"]) == ("future", "future")
        assert row["value_size"] == len(values[row["partition"], row["offset"]])
    assert by_id(truth["alert"]) == by_id(overheating_alerts(topic.readings(), default_rules(plan)))
    assert max(row["reading_count"] for row in truth["window"]) == 6000 - 60
    latest = max(row["window_end"] for row in truth["window"])
    assert latest <= "2026-11-18T11:20:00.000Z"


def test_only_windows_with_too_late_records_are_indeterminate(tmp_path: Path) -> None:
    plan = plan_of("too-late=0.001")
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    indeterminate = [row for row in truth["window"] if row.get("either")]
    assert Counter(row["scope"] == "fleet" for row in indeterminate)[True] > 0
    assert all(row["window_end"] <= "2026-11-18T11:00:00.000Z" for row in indeterminate), (
        "15 min before the start"
    )
    sure = [row for row in truth["window"] if "either" not in row]
    late_records = sum(row["reading_count"] for row in indeterminate if row["scope"] == "fleet")
    assert late_records == 2 * 6, "each of the six lies in two windows"
    assert {row["window_end"] for row in sure} == {
        "2026-11-18T11:10:00.000Z",
        "2026-11-18T11:15:00.000Z",
    }
    indeterminate = [row for row in truth["signal-statistic"] if row.get("either")]
    assert sum(row["reading_count"] for row in indeterminate) == 2 * 6, "a device type and a rack"
    assert max(row["window_end"] for row in indeterminate) < "2026-11-18T11:00:00.000Z"
    sure = [row for row in truth["signal-statistic"] if "either" not in row]
    assert {row["window_start"][11:16] for row in sure} == {"11:06", "11:07"}


def test_the_windows_of_the_flush_record_are_indeterminate(tmp_path: Path) -> None:
    plan = plan_of()
    flush = reading(1, 20.0, "flush", event_time="2026-11-18T11:08:00.000Z")
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged, flush)
    indeterminate = {
        (row["scope"], row["window_start"][11:16]) for row in truth["window"] if row.get("either")
    }
    assert indeterminate == {
        (scope, start) for scope in ("fleet", "flush") for start in ("11:00", "11:05")
    }
    groups = {
        (row["device_type"], row["rack_id"])
        for row in truth["signal-statistic"]
        if row.get("either")
    }
    assert groups == {("gpu-server", None), (None, "flush")}


def test_a_run_without_acknowledged_records_has_a_truth(tmp_path: Path) -> None:
    truth = truth_of(tmp_path, plan_of(*FAULTS), AcknowledgedRecords())
    assert truth == {
        "summary": [
            {"sent": 1, "alerts": 0, "dead_letters": 0, "windows": 0, "signal_statistics": 0}
        ],
        "alert": [],
        "dead-letter": [],
        "window": [],
        "signal-statistic": [],
    }


def test_topic_order_is_append_time_then_partition_then_offset() -> None:
    acknowledged = AcknowledgedRecords()
    rows = [(1, 0, 1, 5, 20), (2, 0, 0, 9, 20), (3, 0, 1, 4, 20), (4, 0, 2, 0, 10)]
    for row in rows:
        acknowledged.add(*row)
    contents = TopicContents([PublishedStream(plan_of(), acknowledged)])
    assert contents.rows[:, 0].tolist() == [4, 2, 3, 1]
    assert contents.rows[0, :5].tolist() == list(rows[3])


def test_the_truth_of_two_runs_is_the_oracles_result_for_the_topic_of_both() -> None:
    """A rack's state goes on in the next run; between the two every rack is silent."""
    later_ms = T0 + 100_000
    plans = [plan_of(*EVENTFUL), plan_of(*EVENTFUL, start_ms=later_ms, first_sequence=10**6)]
    topics = [Topic(plans[0]), Topic(plans[1], start_ms=later_ms)]
    flush_ms = T0 + 61_000
    key, flush = plans[0].flush_record(flush_ms)
    assert key == flush.rack_id
    runs = [
        PublishedStream(plans[0], topics[0].acknowledged, flush, flush_ms),
        PublishedStream(plans[1], topics[1].acknowledged),
    ]
    appended = [*topics[0].appended(), (flush, flush_ms), *topics[1].appended()]
    racks = {rack.rack_id: rack for rack in plans[0].world.inventory(5.0)}
    expected = alerts_by_oracle(appended, RULES, racks, watermark_ms=5_000)
    selection = AlertSelection(tuple(expected), RULES, 5_000)
    truth = truth_rows([TopicContents(runs)], selection)
    assert by_id(truth["alert"]) == by_id([row for rows in expected.values() for row in rows])
    assert min(map(len, expected.values())) >= 8
    silent = [row for row in expected["silent-sensor"] if "either" not in row]
    assert {row["subject"] for row in silent} >= racks.keys(), "silent between the runs"
    windows = {(row["scope"], row["window_start"]): row for row in truth["window"]}
    not_future = [one for one, at_ms in appended if to_ms(one.event_time) <= at_ms + 300_000]
    by_oracle = list(temperature_windows(not_future))
    for row in by_oracle:
        found = windows.pop((row["scope"], row["window_start"]))
        mean = "temperature_c_avg"  # depends on the order of addition in its last digit
        assert {name: found[name] for name in row} == row | {mean: pytest.approx(row[mean])}
    assert not windows
    malformed = sum(
        decoded(value, RackReading) is None for topic in topics for *_, value in topic.contents
    )
    assert len(truth["dead-letter"]) == malformed + len(appended) - len(not_future)
    assert malformed > 0


def demo_plan(start_ms: int) -> ReadingPlan:
    """Return the readings of a minute of the demo's scenario."""
    demo = load_scenario(Path(__file__).parents[2] / "producer" / "scenarios" / "demo.yaml", {}, [])
    assert isinstance(demo.rate, float)
    schedule = make_schedule(rate=demo.rate, clock_rate=demo.racks, now_ms=start_ms, duration_s=60)
    return ReadingPlan(make_world(demo.seed, demo.racks, demo.sites), schedule, demo.faults, 1)


def test_the_demo_scenario_has_all_its_events_within_a_minute(tmp_path: Path) -> None:
    plan = demo_plan(T0)
    topic = Topic(plan)
    truth = truth_of(tmp_path, plan, topic.acknowledged)
    states = Counter(alert["state"] for alert in truth["alert"])
    assert min(states["WARNING"], states["NORMAL"]) >= 10
    assert len({alert["subject"] for alert in truth["alert"]}) == 2 + 6
    assert min(to_ms(alert["event_time"]) for alert in truth["alert"]) - T0 < 6_000
    rows = TopicContents([PublishedStream(plan, topic.acknowledged)]).rows
    assert np.count_nonzero(rows[:, 1] & FaultFlag.COPY) >= 100
    assert np.count_nonzero(rows[:, 1] & FaultFlag.LATE) >= 100
    corrupted = rows[(rows[:, 1] & FaultFlag.MALFORMED) > 0]
    assert corrupted[0, 4] - T0 < 10_000
    assert not any(row.get("either") for row in truth["window"])


@pytest.mark.parametrize("start_ms", range(T0, T0 + 5_000, 500))
def test_the_demo_loses_a_signal_wherever_in_a_window_it_starts(start_ms: int) -> None:
    """Both states come from the readings of its minute alone: no flush record closes a window."""
    sent = Topic(demo_plan(start_ms), start_ms=start_ms).appended()
    alerts = lost_signal_alerts(sent, lambda _: LostSignal())
    assert {row["state"] for row in alerts if "either" not in row} == {"WARNING", "NORMAL"}


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
        WeakSignal(
            device_types=("gpu-server", "storage-array"),
            below=0.1,
            clear_at=0.3,
            severity="warning",
        ),
        LostSignal(readings=4, window_s=2.0),
        SilentSensor(after_s=20.0),
    )
)


@pytest.mark.parametrize(
    ("rules", "watermark_ms"), [(Rules(), 30_000), (RULES, 5_000)], ids=["defaults", "rules"]
)
def test_each_rules_alerts_are_its_oracles_result_for_the_whole_topic(
    tmp_path: Path, rules: Rules, watermark_ms: int
) -> None:
    """The truth goes rack by rack; here the oracles get the whole topic, decoded from its bytes."""
    plan = plan_of(*EVENTFUL)
    topic = Topic(plan)
    racks = {rack.rack_id: rack for rack in plan.world.inventory(5.0)}
    expected = alerts_by_oracle(topic.appended(), rules, racks, watermark_ms)
    for name, rows in expected.items():
        selection = AlertSelection((name,), rules, watermark_ms)
        truth = truth_of(tmp_path, plan, topic.acknowledged, selection=selection)
        assert by_id(truth["alert"]) == by_id(rows)
        assert len([row for row in rows if not row.get("either")]) >= 8, name
    selection = AlertSelection(tuple(expected), rules, watermark_ms)
    together = truth_of(tmp_path, plan, topic.acknowledged, selection=selection)
    assert by_id(together["alert"]) == by_id([row for rows in expected.values() for row in rows])
    assert together["summary"][0]["alerts"] == len(together["alert"])


def test_an_alert_is_decidable_from_the_record_on_that_gives_it(tmp_path: Path) -> None:
    """The oracles get what the topic held until then, and until just before."""
    plan = plan_of(*EVENTFUL)
    topic = Topic(plan)
    racks = {rack.rack_id: rack for rack in plan.world.inventory(5.0)}
    records = topic.appended()
    hot = rule_lookup(Overheating, RULES, racks)
    weak = rule_lookup(WeakSignal, RULES, racks)
    lost = rule_lookup(LostSignal, RULES, racks)
    silent = rule_lookup(SilentSensor, RULES, racks)
    oracles: dict[str, Callable[[list[tuple[RackReading, int]]], list[dict[str, Any]]]] = {
        "rack-overheating": lambda appended: overheating_alerts([one for one, _ in appended], hot),
        "weak-signal": lambda appended: weak_signal_alerts([one for one, _ in appended], weak),
        "lost-signal": lambda appended: lost_signal_alerts(appended, lost, watermark_ms=5_000),
        "silent-sensor": lambda appended: silent_sensor_alerts(appended, silent),
    }
    selection = AlertSelection(tuple(oracles), RULES, 5_000)
    alerts = truth_of(tmp_path, plan, topic.acknowledged, selection=selection)["alert"]
    for rule, oracle in oracles.items():
        own = [row for row in alerts if row["rule"] == rule and not row.get("either")]
        for row in own[:: max(1, len(own) // 8)]:
            at_ms = to_ms(row["decidable_time"])
            if rule == "silent-sensor" and row["state"] == "WARNING":
                assert row["decidable_time"] == row["event_time"]  # by the clock, by no record
                continue
            topics = [[r for r in records if r[1] < end_ms] for end_ms in (at_ms, at_ms + 1)]
            before, after = ({one["alert_id"] for one in oracle(each)} for each in topics)
            assert row["alert_id"] in after - before, row
        assert len(own) >= 8, rule


def test_readings_late_only_by_the_fleet_make_lost_signal_indeterminate(tmp_path: Path) -> None:
    """They are in time by their rack's latest reading, but not by the fleet's."""
    plan = plan_of("silence=4,start_s=21,length_s=60,every_s=100", "late=0.1,max_s=40")
    topic = Topic(plan)
    racks = {rack.rack_id: rack for rack in plan.world.inventory(5.0)}
    rules = Rules((LostSignal(readings=8, window_s=2.0),))
    rows = lost_signal_alerts(topic.appended(), rule_lookup(LostSignal, rules, racks))
    truth = truth_of(
        tmp_path, plan, topic.acknowledged, selection=AlertSelection(("lost-signal",), rules)
    )
    assert by_id(truth["alert"]) == by_id(rows)
    assert any(row.get("either") for row in rows)


def test_by_default_the_truth_has_only_the_contracts_alerts(
    tmp_path: Path,
) -> None:
    plan = plan_of(*EVENTFUL)
    truth = truth_of(tmp_path, plan, Topic(plan).acknowledged)
    assert {row["rule"] for row in truth["alert"]} == {"rack-overheating"}
    assert not any(row.get("either") for row in truth["alert"])


def test_the_silence_after_the_flush_record_is_indeterminate(tmp_path: Path) -> None:
    plan = plan_of()
    topic = Topic(plan, accepts=lambda place: place < 5990)
    _, flush = plan.flush_record(T0 + 120_000)
    selection = AlertSelection(("lost-signal", "silent-sensor"))
    path = tmp_path / "truth.jsonl"
    sent = PublishedStream(plan, topic.acknowledged, flush, flush_append_ms=T0 + 120_001)
    write_truth(path, [sent], {}, selection)
    rows = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    found = [row for row in rows if row["kind"] == "alert" and row["subject"] == "flush"]
    assert [(row["rule"], row["state"], row["event_time"], row["either"]) for row in found] == [
        ("silent-sensor", "WARNING", "2026-11-18T11:09:10.001Z", True)
    ]


def test_alerts_of_takes_comma_separated_rules_that_follow_from_readings() -> None:
    assert parse_rule_names("rack-overheating") == ("rack-overheating",)
    assert parse_rule_names("weak-signal, silent-sensor") == ("weak-signal", "silent-sensor")
    rules = ", ".join(rule for rule in catalog.RULES if rule != "site-outage")
    refused = {
        "weak-signal,nonsense": f"unknown rule 'nonsense'; choose from {rules}.",
        "": f"unknown rule ''; choose from {rules}.",
        "site-outage": "site-outage follows from alerts, not from readings, so the producer cannot "
        f"know it: choose from {rules}.",
    }
    errors = {}
    for text in refused:
        with pytest.raises(UserFacingError) as error:
            parse_rule_names(text)
        errors[text] = str(error.value)
    assert errors == {text: f"--alerts-of {text}: {reason}" for text, reason in refused.items()}


def test_a_truth_that_cannot_be_written_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    config = Settings(_env_file=None, kafka_bootstrap_servers=f"localhost:{free_port()}")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "truth.jsonl"):
        with pytest.raises(UserFacingError, match=r"truth .* cannot be written .*correct --truth"):
            run(config, Scenario(), truth=path)


def test_the_check_of_a_truth_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "truth.jsonl"
    check_writable(path)
    assert not path.exists()
    path.write_bytes(b"of an earlier run")
    check_writable(path)
    assert path.read_bytes() == b"of an earlier run"
