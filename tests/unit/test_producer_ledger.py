"""The ledger gives back its runs, also where a producer was killed or a delivery failed."""

import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from events.cli import UserFacingError
from events.records import encode
from producer.expected.rack_alerts import READING_RULES, AlertSelection
from producer.expected.topic_contents import (
    AcknowledgedRecords,
    PublishedStream,
    TopicContents,
)
from producer.expected.truth import truth_rows
from producer.ledger import Ledger, TopicRecord, add_unnoted, has_run, read_runs
from producer.scenario import Scenario, load_scenario
from producer.streams.stream_plan import FaultFlag
from tests.builders import T0
from tests.unit.clickstream import Topics, started

FAULTS = (
    "overheating=4,start_s=2,length_s=6,every_s=15",
    "late=0.03",
    "duplicate=0.05",
    "malformed=0.01",
    "orphan=0.1",
)
FIRST_SEQUENCE = 77


def scenario() -> Scenario:
    options = {"streams": ["racks", "clicks", "actions"], "count": 2500, "time_scale": 60.0}
    return load_scenario(None, options, list(FAULTS))


def write_run(
    folder: Path, start_ms: int, *, killed: bool = False, failed: int = 0
) -> list[PublishedStream]:
    """Write a run whose records a topic in memory acknowledges, and return what it published."""
    plan = scenario()
    schedule, streams = started(plan, start_ms, FIRST_SEQUENCE)
    ledger = Ledger(folder, plan, schedule, streams, FIRST_SEQUENCE)
    sent = Topics(streams).sent
    for stream in sent:
        add = ledger.adder(stream.plan.topic)
        for row in stream.acknowledged.rows().tolist():
            add(*row)
        if not killed:
            key, stream.flush = stream.plan.flush_record(start_ms + 10**6)
            stream.flush_position = (zlib.crc32(key.encode()) % 4, 10**6)
            stream.flush_append_ms = start_ms + 10**6
    ledger.write()
    if not killed:
        ledger.end({"sent": 2500, "failed": failed}, sent)
    return sent


def truth(sent: list[list[PublishedStream]]) -> bytes:
    contents = [TopicContents(runs) for runs in zip(*sent, strict=True)]
    rows = truth_rows(contents, AlertSelection(READING_RULES))
    return msgspec.json.encode(rows, order="sorted")


def test_the_truth_of_a_ledger_is_that_of_the_runs_in_it(tmp_path: Path) -> None:
    later = write_run(tmp_path, T0 + 10**7, killed=True)
    first = write_run(tmp_path, T0)
    runs = read_runs(tmp_path)
    assert [run.end is None for run in runs] == [False, True], "in the order of their starts"
    assert runs[0].end is not None
    assert runs[0].end.summary == {"sent": 2500, "failed": 0}
    assert truth([run.streams for run in runs]) == truth([first, later])
    flushes = [[stream.flush for stream in run.streams] for run in runs]
    assert flushes == [[stream.flush for stream in first], [None] * len(later)]
    positions = [stream.flush_position for stream in runs[0].streams]
    assert positions == [stream.flush_position for stream in first]


def test_a_row_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    (stream, *_) = write_run(tmp_path, T0, killed=True)
    file = tmp_path / f"{stream.plan.run_id}.rack-readings.rows"
    file.write_bytes(file.read_bytes()[:-7])
    (run,) = read_runs(tmp_path)
    found, expected = run.streams[0].acknowledged.rows(), stream.acknowledged.rows()
    assert found.tolist() == expected[:-1].tolist()


def test_what_a_killed_run_had_sent_and_not_noted_is_found_by_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("producer.ledger.RECORDS_PER_CHUNK", 100)
    write_run(tmp_path, T0)
    sent = write_run(tmp_path, T0 + 10**6, killed=True)
    for stream in sent:
        file = tmp_path / f"{stream.plan.run_id}.{stream.plan.topic.name}.rows"
        file.write_bytes(file.read_bytes()[: -200 * 5 * 8])
    runs = read_runs(tmp_path)
    for at, stream in enumerate(sent):
        records = []
        for run in (runs[0].streams[at], stream):
            rows = run.acknowledged.rows()
            values = run.plan.values(rows[:, 0])
            shift = 10**8 if run is stream else 0  # the offsets go on in the second run
            records += [
                TopicRecord(partition, offset + shift, append_ms, value)
                for (_, _, partition, offset, append_ms), value in zip(rows, values, strict=True)
            ]
        own = runs[1].streams[at]
        noted = own.acknowledged.rows()
        own.acknowledged = AcknowledgedRecords()
        for number, flags, partition, offset, append_ms in noted.tolist():
            own.acknowledged.add(number, flags, partition, offset + 10**8, append_ms)
        assert len(noted) == max(0, len(stream.acknowledged) - 200)
        _, flush = stream.plan.flush_record(T0 + 10**7)
        flushed = TopicRecord(1, 10**9, T0 + 10**7, encode(flush))
        again = flushed._replace(offset=10**9 + 1)
        foreign = [TopicRecord(0, 10**7, T0 + 10**6, b"{}"), again]
        others = add_unnoted(runs, stream.plan.topic, [*records, flushed, *foreign])
        assert others == foreign
        assert (own.flush, own.flush_position) == (flush, (1, 10**9))
        assert own.flush_append_ms == T0 + 10**7
        found = sorted(own.acknowledged.rows().tolist())
        expected = stream.acknowledged.rows()
        expected[:, 3] += 10**8
        unlike = [
            pair
            for pair in zip(found, sorted(expected.tolist()), strict=True)
            if (pair[0][0], *pair[0][2:]) != (pair[1][0], *pair[1][2:])
        ]
        assert unlike == [], "number, partition, offset and append time"
        flags = [sorted(rows[:, 1].tolist()) for rows in (own.acknowledged.rows(), expected)]
        assert flags[0] == flags[1]


@pytest.mark.parametrize("failed", [0, 1])
def test_a_record_that_was_stored_though_its_delivery_failed_is_found_by_its_value(
    tmp_path: Path, failed: int
) -> None:
    (sent, *_) = write_run(tmp_path, T0, failed=failed)
    rows = sent.acknowledged.rows()
    values = sent.plan.values(rows[:, 0])
    at = next(at for at, flags in enumerate(rows[:, 1]) if flags & FaultFlag.COPY)
    rows[at, 4] += 10 * 60_000
    file = tmp_path / f"{sent.plan.run_id}.{sent.plan.topic.name}.rows"
    file.write_bytes(np.delete(rows, at, axis=0).tobytes())
    records = [
        TopicRecord(partition, offset, append_ms, value)
        for (*_, partition, offset, append_ms), value in zip(rows.tolist(), values, strict=True)
    ]
    once_more = records[0]._replace(offset=10**9, append_ms=records[at].append_ms)
    runs = read_runs(tmp_path)
    others = add_unnoted(runs, sent.plan.topic, [*records, once_more])
    assert others == ([once_more] if failed else [records[at], once_more])
    found = runs[0].streams[0].acknowledged.rows()
    expected = rows if failed else np.delete(rows, at, axis=0)
    assert sorted(found.tolist()) == sorted(expected.tolist())


def test_rows_reach_the_disk_before_the_run_ends(tmp_path: Path) -> None:
    plan = scenario()
    schedule, streams = started(plan, T0, FIRST_SEQUENCE)
    ledger = Ledger(tmp_path, plan, schedule, streams, FIRST_SEQUENCE)
    add = ledger.adder(streams.plans[0].topic)
    for number in range(5000):
        add(number, 0, 0, number, T0)
    (run,) = read_runs(tmp_path)
    assert 3000 < len(run.streams[0].acknowledged) < 5000
    ledger.write_sometimes()
    (run,) = read_runs(tmp_path)
    assert len(run.streams[0].acknowledged) == 5000


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda text: text[:-20], "cannot be read: "),
        (lambda text: text.replace('"run_id":"', '"run_id":"\xff'), "cannot be read: "),
        (lambda text: text.replace('"format_version":1', '"format_version":9'), "has format 9, "),
        (lambda text: text.replace('"seed":1', '"seed":2'), "is of another version"),
    ],
    ids=["cut off", "not UTF-8", "another format", "drawn otherwise"],
)
def test_a_ledger_that_cannot_be_read_is_named(
    tmp_path: Path, change: Callable[[str], str], sentence: str
) -> None:
    (stream, *_) = write_run(tmp_path, T0)
    file = tmp_path / f"{stream.plan.run_id}.json"
    file.write_text(change(file.read_text()), encoding="latin-1")
    with pytest.raises(UserFacingError, match=sentence):
        read_runs(tmp_path)


def test_no_run_and_no_folder_are_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError, match="has no run: start a producer with --ledger"):
        read_runs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    plan = scenario()
    schedule, streams = started(plan, T0, FIRST_SEQUENCE)
    with pytest.raises(UserFacingError, match=r"cannot be written .*correct --ledger"):
        Ledger(tmp_path / "file", plan, schedule, streams, FIRST_SEQUENCE)


def test_a_ledger_tells_whether_it_has_a_run_of_the_same_streams(tmp_path: Path) -> None:
    assert not has_run(tmp_path / "nowhere", ("racks",))
    write_run(tmp_path, T0, killed=True)
    streams = scenario().streams
    assert has_run(tmp_path, streams)
    assert has_run(tmp_path, streams[::-1])
    assert not has_run(tmp_path, streams[1:] or ("actions",))
