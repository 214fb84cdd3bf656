"""The producer against a real broker: the topic contains what the producer reports."""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.partitioner.default import murmur2

from broker.server import free_port
from events.constants import FUTURE_TOLERANCE
from events.inventory import read_inventory
from events.records import RackReading
from events.rules import LostSignal, Overheating, Rules, SilentSensor, WeakSignal, read_rules
from events.times import duration_ms, now_ms, to_ms
from events.topics import RACK_READINGS, USER_ACTIONS
from producer.expected.oracles.lost_signal import lost_signal_alerts
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rack_temperature import temperature_windows
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.signal_statistics import signal_statistics
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from producer.expected.oracles.weak_signal import weak_signal_alerts
from producer.ledger import LedgerRun, read_runs
from tests.integration.conftest import Command
from tests.promises import Promises
from tests.support import Kafka, Record, above, eventually, kill, program, run

pytestmark = pytest.mark.full

REPORTED_WITHIN_S = 10.0
FAULTS = [
    "--fault=overheating=3,start_s=0.5,length_s=1,every_s=2,stagger_s=0.3",
    "--fault=duplicate=0.05,max_s=1",
    "--fault=late=0.03,max_s=2",
    "--fault=out-of-order=0.05",
    "--fault=malformed=0.01",
    "--fault=future=0.005",
    "--fault=too-late=0.002",
]


EPISODES = [
    "--fault=overheating=3,start_s=5,length_s=20,every_s=40",
    "--fault=weak-signal=3,start_s=5,length_s=20,every_s=40",
    "--fault=silence=6,start_s=12,length_s=40,stagger_s=1",
    "--fault=duplicate=0.02,max_s=2",
    "--fault=malformed=0.01",
]
"""Times are in event time, 15 seconds per second. One silence begins early in a 5 s window."""
RULES = """rules:
  - rule: rack-overheating
    clear_below_c: 60
    critical_after_s: 10
  - rule: silent-sensor
    after_s: 1
"""


def readings(records: Iterable[Record]) -> list[tuple[Record, RackReading]]:
    """Return the records that can be read."""
    found = []
    for record in records:
        try:
            found.append((record, msgspec.json.decode(record.value or b"", type=RackReading)))
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return found


def truth(path: Path) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {
        "summary": [],
        "alert": [],
        "dead-letter": [],
        "window": [],
        "signal-statistic": [],
    }
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        row.pop("decidable_time", None)  # tests/unit/test_producer_truth.py checks it
        rows[row.pop("kind")].append(row)
    return rows


def assert_truth_matches_the_topic(kafka: Kafka, truth_path: Path, inventory: Path) -> None:
    written, records = truth(truth_path), kafka.read_all(RACK_READINGS)
    readable = readings(records)
    racks = {rack.rack_id: rack for rack in read_inventory(inventory)}
    expected = overheating_alerts(
        [reading for _, reading in readable], rule_lookup(Overheating, Rules(), racks)
    )
    assert len(expected) > 5
    assert sorted(written["alert"], key=lambda a: a["alert_id"]) == sorted(
        expected, key=lambda a: a["alert_id"]
    )
    placed = {(record.partition, record.offset) for record, _ in readable}
    bad = {
        (r.partition, r.offset, len(r.value or b""))
        for r in records
        if (r.partition, r.offset) not in placed
    }
    dead = {
        (row["partition"], row["offset"], row["value_size"])
        for row in written["dead-letter"]
        if row["reason"] == "unreadable"
    }
    assert dead == bad
    assert len(bad) > 3
    tolerance_ms = duration_ms(FUTURE_TOLERANCE)
    on_time = [
        r for record, r in readable if to_ms(r.event_time) <= record.timestamp_ms + tolerance_ms
    ]
    aside = [row for row in written["dead-letter"] if row["reason"] == "future"]
    assert len(aside) == len(readable) - len(on_time)
    windows, statistics = (
        [{key: value for key, value in row.items() if key != "either"} for row in written[kind]]
        for kind in ("window", "signal-statistic")
    )
    assert windows == temperature_windows(on_time)
    assert statistics == signal_statistics(on_time)
    assert written["summary"][0]["acknowledged"] == len(records)


def test_the_truth_of_a_run_with_every_fault_matches_the_topic(
    topics: Kafka, tmp_path: Path
) -> None:
    files = [f"--truth={tmp_path / 'truth.jsonl'}", f"--inventory={tmp_path / 'inventory.jsonl'}"]
    done = run(
        "producer",
        "run",
        "--rate=800",
        "--duration=4",
        "--racks=30",
        *FAULTS,
        *files,
        env=topics.env,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["failed"], summary["acknowledged"]) == (0, summary["sent"])
    assert summary["duplicates"] >= 150
    assert_truth_matches_the_topic(topics, tmp_path / "truth.jsonl", tmp_path / "inventory.jsonl")


def test_the_truth_has_the_alerts_of_the_selected_rules(topics: Kafka, tmp_path: Path) -> None:
    """The oracles get the whole topic, with the broker's append times."""
    (tmp_path / "rules.yaml").write_text(RULES, encoding="utf-8")
    truth_path, racks = tmp_path / "truth.jsonl", tmp_path / "inventory.jsonl"
    files = [f"--truth={truth_path}", f"--inventory={racks}", f"--rules={tmp_path / 'rules.yaml'}"]
    which = "--alerts-of=rack-overheating,weak-signal,lost-signal,silent-sensor"
    size = ["--rate=800", "--duration=6", "--racks=20", "--time-scale=15", "--flush"]
    done = run("producer", "run", *size, *EPISODES, *files, which, env=topics.env)
    assert done.returncode == 0, done.stderr
    inventory = {rack.rack_id: rack for rack in read_inventory(racks)}
    rules = read_rules(tmp_path / "rules.yaml", list(inventory.values()))
    records = [(reading, r.timestamp_ms) for r, reading in readings(topics.read_all(RACK_READINGS))]
    expected = [
        *overheating_alerts([r for r, _ in records], rule_lookup(Overheating, rules, inventory)),
        *weak_signal_alerts([r for r, _ in records], rule_lookup(WeakSignal, rules, inventory)),
        *lost_signal_alerts(records, rule_lookup(LostSignal, rules, inventory)),
        *silent_sensor_alerts(
            records, rule_lookup(SilentSensor, rules, inventory), inventory=inventory
        ),
    ]
    alerts = truth(truth_path)["alert"]
    assert sorted(alerts, key=lambda a: a["alert_id"]) == sorted(
        expected, key=lambda a: a["alert_id"]
    )
    sure = Counter(alert["rule"] for alert in alerts if not alert.get("either"))
    assert set(sure) == {"rack-overheating", "weak-signal", "lost-signal", "silent-sensor"}
    assert min(sure.values()) >= 2


def test_the_highest_rate_sends_each_reading_once_partitioned_like_java(topics: Kafka) -> None:
    done = run("producer", "run", "--rate=max", "--count=30000", "--racks=500", env=topics.env)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["sent"], summary["acknowledged"], summary["failed"]) == (30_000, 30_000, 0)
    assert summary["records_per_second"] > 0
    records = topics.read_all(RACK_READINGS)
    found = readings(records)
    assert len({reading.event_id for _, reading in found}) == len(records) == 30_000
    for record, reading in found:
        assert record.key == reading.rack_id.encode()
        assert record.partition == (murmur2(record.key) & 0x7FFFFFFF) % RACK_READINGS.partitions
        assert reading.scheduled_time is None
    newest = max(to_ms(reading.event_time) for _, reading in found)
    assert newest <= min(record.timestamp_ms for record in records), (
        "no event is ahead of the clock"
    )
    assert len({record.partition for record in records}) == RACK_READINGS.partitions


def test_a_racks_readings_are_in_the_order_of_their_sequence(topics: Kafka) -> None:
    run(
        "producer",
        "run",
        "--rate=max",
        "--count=20000",
        "--racks=7",
        "--first-sequence=1",
        env=topics.env,
    )
    sequences: dict[str, list[int]] = {}
    for _, reading in readings(topics.read_all(RACK_READINGS)):
        sequences.setdefault(reading.rack_id, []).append(reading.sequence)
    assert len(sequences) == 7
    assert all(found == list(range(1, len(found) + 1)) for found in sequences.values())


def test_a_paced_run_has_regular_scheduled_times_and_sends_none_early(topics: Kafka) -> None:
    before_ms = now_ms()
    done = run("producer", "run", "--rate=400", "--duration=2", "--racks=10", env=topics.env)
    assert done.returncode == 0, done.stderr
    found = readings(topics.read_all(RACK_READINGS))
    found.sort(key=lambda pair: int(pair[1].event_id.rpartition("-")[2]))
    scheduled = [to_ms(reading.scheduled_time or "") for _, reading in found]
    assert scheduled[0] > before_ms
    assert scheduled == [scheduled[0] + int(number * 2.5) for number in range(800)]
    assert [to_ms(reading.event_time) for _, reading in found] == scheduled
    # The broker has this machine's clock; rounding takes up to a millisecond.
    assert all(
        record.timestamp_ms >= to_ms(reading.scheduled_time or "") - 1 for record, reading in found
    )
    assert json.loads(done.stdout)["max_schedule_lag_ms"] < 2000


def test_scaled_event_time_ends_near_now_and_never_passes_it(topics: Kafka) -> None:
    done = run("producer", "run", "--rate=500", "--duration=2", "--time-scale=3600", env=topics.env)
    assert done.returncode == 0, done.stderr
    found = readings(topics.read_all(RACK_READINGS))
    times = [to_ms(reading.event_time) for _, reading in found]
    assert max(times) - min(times) == pytest.approx(7200 * 1000, rel=0.01)
    assert all(to_ms(reading.event_time) <= record.timestamp_ms for record, reading in found)


@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_stopped_run_writes_the_truth_of_what_it_sent(
    topics: Kafka, tmp_path: Path, stop: signal.Signals, status: int
) -> None:
    files = [f"--truth={tmp_path / 'truth.jsonl'}", f"--inventory={tmp_path / 'inventory.jsonl'}"]
    command = ["producer", "run", "--rate=2000", "--racks=30", *FAULTS, *files]
    with program(*command, env=topics.env, output=tmp_path / "out") as process:
        eventually(lambda: len(topics.read_all(RACK_READINGS)), above(8000))
        assert kill(process, stop) == status, (tmp_path / "out").read_text(encoding="utf-8")
    assert_truth_matches_the_topic(topics, tmp_path / "truth.jsonl", tmp_path / "inventory.jsonl")


def test_the_flush_record_comes_last_from_its_own_cold_rack(topics: Kafka, tmp_path: Path) -> None:
    command = ["--rate=max", "--count=1000", "--flush", f"--truth={tmp_path / 'truth.jsonl'}"]
    done = run("producer", "run", *command, env=topics.env)
    assert done.returncode == 0, done.stderr
    found = readings(topics.read_all(RACK_READINGS))
    flush = [(record, reading) for record, reading in found if reading.rack_id == "flush"]
    assert len(flush) == 1
    record, reading = flush[0]
    assert reading.temperature_c < 50
    assert 0 <= record.timestamp_ms - to_ms(reading.event_time) < 10_000
    assert reading.event_time == max(reading.event_time for _, reading in found)
    assert json.loads(done.stdout)["sent"] == len(found) - 1 == 1000


def test_failed_deliveries_are_counted_and_fail_the_run(topics: Kafka, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=topics.bootstrap)
    name = topics.name(RACK_READINGS)
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name, configs={"max.message.bytes": "500000"})]
    )
    admin.close()
    large = "--fault=malformed=0.01,kinds=[large]"
    for files in ([], [f"--truth={tmp_path / 'truth.jsonl'}"]):
        done = run(
            "producer",
            "run",
            "--rate=1000",
            "--count=600",
            large,
            "--linger-ms=0",
            *files,
            env=topics.env,
        )
        summary = json.loads(done.stdout)
        assert (summary["sent"], summary["failed"], summary["acknowledged"]) == (600, 6, 594)
        assert done.returncode == 1
        assert "6 of 600 records failed: " in done.stderr
        assert "size" in done.stderr.splitlines()[-1]
    assert truth(tmp_path / "truth.jsonl")["dead-letter"] == []


def test_a_missing_topic_is_reported_in_one_sentence(topics: Kafka) -> None:
    env = {**topics.env, "TOPIC_PREFIX": "nowhere-"}
    done = run("producer", "run", "--count=1", env=env)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"producer: the broker at {topics.bootstrap} has no topic nowhere-rack-readings: "
        "create it with python -m broker topics, or set TOPIC_PREFIX."
    ]


def test_a_missing_broker_is_reported_in_one_sentence_within_ten_seconds(
    promises: Promises,
) -> None:
    server = f"127.0.0.1:{free_port()}"
    began_s = time.monotonic()
    done = run("producer", "run", "--count=1", env={"KAFKA_BOOTSTRAP_SERVERS": server})
    took_s = time.monotonic() - began_s
    promises.compare("missing broker reported", took_s, REPORTED_WITHIN_S, margin=1)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"producer: no Kafka broker answers at {server}: start one with python -m broker up, "
        "or set KAFKA_BOOTSTRAP_SERVERS."
    ]


def test_wrong_options_are_reported_in_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = {
        "--rate=fast": "--rate must be a number of events per second or max, not 'fast'.",
        "--rate=-1": "--rate -1.0: Expected `float` > 0.0.",
        "--racks=2000000": "--racks 2000000: Expected `int` <= 1000000.",
        "--streams=clocks": "--streams clocks: unknown stream 'clocks'; choose from racks, "
        "clicks, actions.",
        "--alerts-of=site-outage --truth=x": "--alerts-of site-outage: site-outage follows from "
        "alerts, not from readings",
        "--alerts-of=weak-signal": "--truth-kinds, --alerts-of and --rules apply to the truth "
        "file: add --truth.",
        "--truth-kinds=windows --truth=x": "--truth-kinds windows: unknown kind 'windows'; choose "
        "from alert, dead-letter, window,",
        "--history-hours=4": "--history-hours needs --ledger: add it.",
        "--start-time=yesterday": "--start-time: 'yesterday' is not a time in UTC ending in Z",
        "--fault=nonsense": "there is no fault 'nonsense': choose one of overheating",
    }
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    results = {options: command("producer", "run", *options.split()) for options in sentences}
    assert {
        options: (status, stderr)
        for options, (status, _, stderr) in results.items()
        if status != 1
        or not stderr.startswith(f"producer: {sentences[options]}")
        or len(stderr.splitlines()) != 1
    } == {}


def test_the_list_of_faults_and_the_inventory_need_no_broker(tmp_path: Path) -> None:
    faults = run("producer", "faults")
    assert faults.returncode == 0
    assert "overheating" in faults.stdout
    path = tmp_path / "racks.jsonl"
    assert run("producer", "world", "--inventory", path, "--racks=12").returncode == 0
    assert len(read_inventory(path)) == 12


def not_in_ledger(kafka: Kafka, runs: list[LedgerRun]) -> int:
    """Return how many records the topics hold that the runs do not; what they hold is right."""
    missing = 0
    for topic in (RACK_READINGS, USER_ACTIONS):
        records = {(r.partition, r.offset): r for r in kafka.read_all(topic)}
        streams = [one for run in runs for one in run.streams if one.plan.topic == topic]
        for stream in streams:
            rows = stream.acknowledged.rows()
            values = stream.plan.values(rows[:, 0])
            for (*_, partition, offset, append_ms), value in zip(
                rows.tolist(), values, strict=True
            ):
                record = records.pop((partition, offset))
                assert (record.timestamp_ms, record.value) == (append_ms, value)
        missing += len(records)
    return missing


def test_a_ledger_has_all_of_a_run_and_of_a_killed_run_all_but_the_last_moment(
    topics: Kafka, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    command = ["producer", "run", "--rate=1000", "--racks=30", *FAULTS, f"--ledger={ledger}"]
    missing = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        before = len(topics.read_all(RACK_READINGS))
        output = tmp_path / number.name
        with program(*command, "--streams=racks,actions", env=topics.env, output=output) as running:
            eventually(lambda: len(topics.read_all(RACK_READINGS)), above(before + 1000))
            assert kill(running, number) == (0 if number == signal.SIGTERM else -number)
        missing.append(not_in_ledger(topics, read_runs(ledger)))
    assert [run.end is None for run in read_runs(ledger)] == [False, True]
    ordered, killed = missing
    assert ordered == 0
    assert killed < 2000, "the records of a moment"
