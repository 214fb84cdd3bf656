"""The truth of a ledger: what its topics lack or hold besides, and which rows are not due yet."""

import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from demo import ledger_truth
from demo.ledger_truth import read_ledger_truth
from demo.verdict import Actual, Truth, compare_outputs, initial_silences
from events.cli import UserFacingError
from events.rules import Rules
from events.settings import Settings
from events.times import to_ms, to_text
from events.topics import RACK_READINGS, Topic
from producer.ledger import Ledger, TopicRecord
from producer.scenario import load_scenario
from producer.streams.stream_set import Stream
from tests.builders import T0, rack
from tests.unit.clickstream import Topics, started

CLICKSTREAM: tuple[Stream, ...] = ("clicks", "actions")
FLUSHED_MS = T0 + 10**9


def write_run(
    folder: Path,
    names: Sequence[Stream],
    start_ms: int = T0,
    *,
    sent: bool = True,
    flush: bool = False,
    racks: int = 40,
    history_hours: float | None = None,
) -> list[tuple[Topic, TopicRecord]]:
    """Write a run of some streams, and return what it has sent, if it has sent anything."""
    scenario = load_scenario(
        None,
        {"streams": list(names), "count": 600, "time_scale": 600.0, "racks": racks},
        ["duplicate=0.05"],
    )
    if history_hours is not None:
        scenario = msgspec.structs.replace(scenario.history(history_hours), count=600)
    schedule, streams = started(scenario, start_ms, 0)
    ledger, records = Ledger(folder, scenario, schedule, streams, 0), []
    published = Topics(streams).sent if sent else []
    for stream in published:
        topic = stream.plan.topic
        add, rows = ledger.adder(topic), stream.acknowledged.rows()
        values = stream.plan.values(rows[:, 0])
        for (number, flags, *position), value in zip(rows.tolist(), values, strict=True):
            partition, offset, append_ms = position
            add(number, flags, partition, offset, append_ms)
            records.append((topic, TopicRecord(partition, offset, append_ms, value)))
        if flush:
            _, stream.flush = stream.plan.flush_record(FLUSHED_MS)
            stream.flush_position, stream.flush_append_ms = (0, 10**6), FLUSHED_MS
            records.append((topic, TopicRecord(0, 10**6, FLUSHED_MS, b"")))
    ledger.write()
    if sent:
        ledger.end({"sent": len(records), "failed": 0, "seconds": 1.0}, published)
    return records


def truth_of(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    records: Sequence[tuple[Topic, TopicRecord]],
    *,
    closed_windows: bool = False,
) -> Truth:
    """Return the truth of a ledger whose topics hold these records."""

    def read_topic(_: Settings, topic: Topic) -> Iterator[TopicRecord]:
        return (record for of, record in records if of == topic)

    monkeypatch.setattr(ledger_truth, "read_topic", read_topic)
    return read_ledger_truth(
        *(Settings(), folder, [], Rules()),
        lost_signal_watermark_ms=30_000,
        closed_windows=closed_windows,
    )


@pytest.mark.parametrize("crashed", [False, True], ids=["not started", "crashed at once"])
def test_a_verdict_on_racks_alone_names_each_output_of_the_clickstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, crashed: bool
) -> None:
    records = write_run(tmp_path, ["racks"])
    if crashed:
        write_run(tmp_path, CLICKSTREAM, T0 + 1000, sent=False)
    truth = truth_of(monkeypatch, tmp_path, records)
    assert truth.inputs is not None
    assert (truth.inputs.expected, truth.inputs.passed) == (len(records), True)
    names = (
        *("clicked impressions", "unclicked impressions", "sessions", "user totals"),
        *("action counts", "distinct actions"),
    )
    assert {f"no {name}" for name in names} <= {*compare_outputs(truth, Actual()).shortfalls}


def test_a_record_that_the_topic_lacks_is_missing_and_one_of_no_run_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (topic, lost), *records = write_run(tmp_path, ["racks"])
    foreign = TopicRecord(1, 10**7, T0, b"{}")
    inputs = truth_of(monkeypatch, tmp_path, [*records, (topic, foreign)]).inputs
    assert inputs is not None
    assert inputs.missing == [
        f"record {lost.offset} of partition {lost.partition} of rack-readings"
    ]
    assert inputs.wrong == ["record 10000000 of partition 1 of rack-readings is of no run"]


def test_a_record_whose_position_another_one_has_taken_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records = write_run(tmp_path, ["racks"])
    (rows,) = tmp_path.glob("*.rows")
    number, flags, partition, offset, append_ms = struct.unpack("5q", rows.read_bytes()[:40])
    with rows.open("ab") as file:
        file.write(struct.pack("5q", number + 1, flags, partition, offset, append_ms))
    inputs = truth_of(monkeypatch, tmp_path, records).inputs
    assert inputs is not None
    position = f"record {offset} of partition {partition} of rack-readings"
    assert inputs.missing == [f"{position}, at a position acknowledged again"]
    assert (inputs.expected, inputs.actual) == (len(records) + 1, len(records))


def test_runs_with_different_racks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = write_run(tmp_path, ["racks"])
    records += write_run(tmp_path, ["racks"], T0 + 10**6, racks=41)
    sentence = f"the ledger {tmp_path} has runs of scenarios with different racks or rates: "
    with pytest.raises(UserFacingError, match=re.escape(sentence)):
        truth_of(monkeypatch, tmp_path, records)


def test_a_run_of_the_history_has_the_same_racks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = write_run(tmp_path, ["racks"], T0 - 10**8, history_hours=7)
    live = write_run(tmp_path, ["racks"], sent=False)
    assert truth_of(monkeypatch, tmp_path, [*history, *live]).inputs is not None


def test_a_rack_may_be_silent_before_a_history_whose_events_are_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = write_run(tmp_path, ["racks"], history_hours=7)
    expected = replace(truth_of(monkeypatch, tmp_path, records), inventory=[rack()])
    silence = {
        "rule": "silent-sensor",
        "subject": rack().rack_id,
        "site_id": rack().site_id,
        "state": "WARNING",
        "event_time": to_text(T0 - 1000),
        "evidence": [],
    }
    late = {**silence, "event_time": to_text(T0 + 10_000)}
    assert initial_silences(expected, Actual(alerts=[silence])) == [{**silence, "either": True}]
    assert initial_silences(expected, Actual(alerts=[late])) == []


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "the broker at localhost:9092 has no topic rack-readin"),
        (KafkaError._TRANSPORT, "no broker answers at localhost:9092: "),
    ],
)
def test_a_topic_that_cannot_be_read_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, code: int, sentence: str
) -> None:
    def read_to_end(*_: object) -> Iterator[object]:
        raise KafkaException(KafkaError(code))

    monkeypatch.setattr(ledger_truth, "read_to_end", read_to_end)
    with pytest.raises(UserFacingError, match=re.escape(sentence)):
        list(ledger_truth.read_topic(Settings(), RACK_READINGS))


def test_rows_that_wait_for_the_watermark_are_counted_unless_a_flush_record_has_closed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, closed = (
        truth_of(
            monkeypatch,
            tmp_path / str(flush),
            write_run(tmp_path / str(flush), CLICKSTREAM, flush=flush),
        )
        for flush in (False, True)
    )
    assert closed.not_due == {"sessions": 0, "unclicked impressions": 0}
    more = {
        "sessions": len(closed.clickstream["session"]) - len(waiting.clickstream["session"]),
        "unclicked impressions": (
            len(closed.clickstream["attribution"]) - len(waiting.clickstream["attribution"])
        ),
    }
    assert waiting.not_due == more
    assert min(more.values()) > 0


def test_windows_that_end_after_the_watermark_are_not_due_as_closed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = write_run(tmp_path, ["racks"])
    truth = truth_of(monkeypatch, tmp_path, records, closed_windows=True)
    times = [json.loads(record.value)["event_time"] for _, record in records]
    watermark = to_text(to_ms(max(times)) - 600_000)
    assert truth.closed_windows is not None
    assert {row["window_end"] <= watermark for row in truth.closed_windows} == {True}
    waiting = [row for row in truth.windows if row["window_end"] > watermark]
    assert truth.not_due["closed windows"] == len(waiting)
    assert len(truth.closed_windows) + len(waiting) == len(truth.windows)
    assert min(len(waiting), len(truth.closed_windows)) > 40
