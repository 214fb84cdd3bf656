"""Store on disk what producers ran, and which records the broker acknowledged: the ledger.

A folder holds three kinds of files for each run:

- `RUN.json`, written before the first record: the scenario and when the run started. Every record
  of the run follows from these.
- `RUN.TOPIC.rows`, appended to while the run sends: five integers of 64 bits for each acknowledged
  record (`AcknowledgedRecords.add`).
- `RUN.end.json`, written when the run ends in order: its summary and its flush records. A run that
  was killed has none, and its rows may lack the last records that the broker has acknowledged.

The rows of a run with failed deliveries may lack records, too: the broker may have stored a record
whose acknowledgement never arrived.

So a run needs little memory however long it is, and a verdict can count what several runs have
sent. The rows take 40 bytes per record, a fifth of what the topic takes.
"""

import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from events.cli import UserFacingError
from events.files import replace_file, writing
from events.records import encode
from events.topics import Topic
from producer.expected.topic_contents import AcknowledgedRecords, PublishedStream
from producer.hashing import Ints
from producer.pacing.schedule import Schedule, make_schedule
from producer.positions import position_of
from producer.publish import OnAcknowledged
from producer.scenario import Scenario
from producer.streams.stream_set import StreamSet, clock_rate

FORMAT_VERSION = 1
BUFFERED_INTEGERS = 8 * 1024
"""How many integers of a topic wait in memory before they are written."""
WRITE_EVERY_S = 0.5
"""How long they wait at most."""
MARGIN_S = 120.0
"""By how much a producer's clock may be ahead of the broker's."""
RECORDS_PER_CHUNK = 10_000
"""So many records of a topic are compared at once with those that were noted."""

Content = TypeVar("Content")


class Start(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What `RUN.json` holds; times in epoch ms."""

    format_version: int
    run_id: str
    scenario: Scenario
    start_wall_ms: int
    start_event_ms: int
    first_sequence: int


class Flush(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A flush record: its value, and where and when (epoch ms) it was appended."""

    value: msgspec.Raw
    partition: int
    offset: int
    append_ms: int


class End(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What `RUN.end.json` holds: the summary that the producer prints, and its flushes by topic."""

    summary: dict[str, Any]
    flushes: dict[str, Flush]


class Ledger:
    """Writes the ledger of one run; raises `UserFacingError` when the folder cannot be written."""

    def __init__(
        self, folder: Path, scenario: Scenario, schedule: Schedule, streams: StreamSet, first: int
    ) -> None:
        self._folder, self._run_id, self._write_at_s = folder, streams.run_id, 0.0
        start = Start(
            format_version=FORMAT_VERSION,
            run_id=streams.run_id,
            scenario=scenario,
            start_wall_ms=schedule.start_wall_ms,
            start_event_ms=schedule.start_event_ms,
            first_sequence=first,
        )
        self._rows = {
            plan.topic: _Rows(folder / f"{streams.run_id}.{plan.topic.name}.rows")
            for plan in streams.plans
        }
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            replace_file(folder / f"{streams.run_id}.json", msgspec.json.encode(start) + b"\n")

    def adder(self, topic: Topic) -> OnAcknowledged:
        """Return a function that adds an acknowledged record of a topic."""
        return self._rows[topic].add

    def write_sometimes(self) -> None:
        """Write what waits in memory, unless that was done a moment ago."""
        if time.monotonic() >= self._write_at_s:
            self.write()

    def write(self) -> None:
        """Write what waits in memory; raise `UserFacingError` when the disk is full."""
        self._write_at_s = time.monotonic() + WRITE_EVERY_S
        for rows in self._rows.values():
            rows.write()

    def end(self, summary: Mapping[str, Any], published: Sequence[PublishedStream]) -> None:
        """Write the rest, and how the run ended."""
        self.write()
        flushes = {
            stream.plan.topic.name: Flush(
                value=msgspec.Raw(encode(stream.flush)),
                partition=stream.flush_position[0],
                offset=stream.flush_position[1],
                append_ms=stream.flush_append_ms,
            )
            for stream in published
            if stream.flush_append_ms is not None and stream.flush_position is not None
        }
        end = End(summary=dict(summary), flushes=flushes)
        with _writing(self._folder):
            replace_file(
                self._folder / f"{self._run_id}.end.json", msgspec.json.encode(end) + b"\n"
            )


def _writing(folder: Path) -> AbstractContextManager[None]:
    """Raise `UserFacingError` when the folder cannot be written."""
    advice = "correct --ledger, the folder's owner, or make room on its disk"
    return writing(f"the ledger {folder}", advice)


class _Rows:
    def __init__(self, file: Path) -> None:
        self._file, self._waiting = file, array("q")

    def add(self, number: int, flags: int, partition: int, offset: int, append_ms: int) -> None:
        self._waiting.extend((number, flags, partition, offset, append_ms))
        if len(self._waiting) >= BUFFERED_INTEGERS:
            self.write()

    def write(self) -> None:
        if self._waiting:
            with _writing(self._file.parent), self._file.open("ab") as file:
                file.write(self._waiting.tobytes())
            del self._waiting[:]


class LedgerRun(msgspec.Struct):
    """A run of a ledger: how it started and ended (None: it was killed), and what it published."""

    start: Start
    end: End | None
    streams: list[PublishedStream]

    @property
    def has_noted_all(self) -> bool:
        """Tell whether its rows have every record of it that a topic may hold."""
        return self.end is not None and not self.end.summary["failed"]


def has_run(folder: Path, streams: Sequence[str]) -> bool:
    """Tell whether a ledger has a run of these streams, in any order; it may have been killed."""
    return any(set(_read_start(file).scenario.streams) == {*streams} for file in _starts(folder))


def read_runs(folder: Path) -> list[LedgerRun]:
    """Return the runs of a ledger in the order of their starts.

    Raises `UserFacingError` when there is none, or one cannot be read.
    """
    files = _starts(folder)
    if not files:
        raise UserFacingError(f"the ledger {folder} has no run: start a producer with --ledger.")
    runs = [_read_run(file) for file in files]
    return sorted(runs, key=lambda run: run.start.start_wall_ms)


def _starts(folder: Path) -> list[Path]:
    return [file for file in folder.glob("*.json") if not file.name.endswith(".end.json")]


def _read_start(file: Path) -> Start:
    start = _read(file, Start)
    if start.format_version != FORMAT_VERSION:
        raise UserFacingError(
            f"the ledger's file {file} has format {start.format_version}, and this program reads "
            f"format {FORMAT_VERSION}: remove the volumes, and start again."
        )
    return start


def _read(file: Path, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserFacingError(f"the ledger's file {file} cannot be read: {error}.") from None


def _read_run(file: Path) -> LedgerRun:
    start, end_file = _read_start(file), file.with_suffix(".end.json")
    end = _read(end_file, End) if end_file.exists() else None
    streams = _streams(start)
    if streams.run_id != start.run_id:
        raise UserFacingError(
            f"the run {start.run_id} of {file.parent} cannot be drawn again: "
            "it is of another version of Rackstream."
        )
    published = [PublishedStream(plan) for plan in streams.plans]
    for stream in published:
        topic = stream.plan.topic
        rows = file.with_suffix(f".{topic.name}.rows")
        stream.acknowledged = AcknowledgedRecords.from_bytes(
            rows.read_bytes() if rows.exists() else b""
        )
        if end is not None and (flush := end.flushes.get(topic.name)) is not None:
            stream.flush = msgspec.json.decode(flush.value, type=topic.record)
            stream.flush_position = (flush.partition, flush.offset)
            stream.flush_append_ms = flush.append_ms
    return LedgerRun(start, end, published)


def _streams(start: Start) -> StreamSet:
    """Return the plans of a run, as it made them."""
    scenario = start.scenario
    schedule = make_schedule(
        rate=scenario.paced_rate,
        clock_rate=clock_rate(scenario.streams, scenario.racks),
        now_ms=start.start_wall_ms,
        duration_s=scenario.duration,
        count=scenario.count,
        start_event_ms=start.start_event_ms,
        time_scale=scenario.time_scale,
        shape=scenario.shape,
    )
    streams = StreamSet(scenario.streams, scenario.make_world(), schedule, scenario.faults)
    streams.restart(schedule, start.first_sequence)
    return streams


class TopicRecord(NamedTuple):
    """A record as a topic holds it; the append time is in epoch ms."""

    partition: int
    offset: int
    append_ms: int
    value: bytes


def add_unnoted(
    runs: Sequence[LedgerRun], topic: Topic, records: Iterable[TopicRecord]
) -> list[TopicRecord]:
    """Add what runs have sent to a topic without noting it; return what is of no run.

    In: all records of the topic, of which few are kept in memory. A record that no ledger has is
    one of a run that was killed, or had failed deliveries, if that run would have sent its value by
    then. Other runs have noted all of their records.
    """
    noted = _noted_positions(_streams_of(runs, topic))
    unknown = [record for some in _chunks(records) for record in _not_in(noted, some)]
    for run in runs:
        if unknown and not run.has_noted_all:
            for stream in _streams_of([run], topic):
                unknown = _add_from_plan(stream, unknown)
    return unknown


def _noted_positions(streams: Iterable[PublishedStream]) -> Ints:
    """Return the positions of all records that runs have noted, sorted."""
    positions = [np.empty(0, dtype=np.int64)]
    for stream in streams:
        rows = stream.acknowledged.rows()
        positions.append(position_of(rows[:, 2], rows[:, 3]))
        if stream.flush_position is not None:
            positions.append(np.array([position_of(*stream.flush_position)], dtype=np.int64))
    return np.sort(np.concatenate(positions))


def _chunks(records: Iterable[TopicRecord]) -> Iterator[list[TopicRecord]]:
    rest = iter(records)
    while some := list(islice(rest, RECORDS_PER_CHUNK)):
        yield some


def _not_in(sorted_positions: Ints, records: Sequence[TopicRecord]) -> list[TopicRecord]:
    if not len(sorted_positions):
        return list(records)
    positions = np.array([position_of(record.partition, record.offset) for record in records])
    # Not np.isin: it would sort all the noted positions again for each chunk.
    found = np.minimum(np.searchsorted(sorted_positions, positions), len(sorted_positions) - 1)
    return [records[at] for at in np.flatnonzero(sorted_positions[found] != positions).tolist()]


def _streams_of(runs: Sequence[LedgerRun], topic: Topic) -> list[PublishedStream]:
    return [stream for run in runs for stream in run.streams if stream.plan.topic == topic]


def _add_from_plan(stream: PublishedStream, unknown: Sequence[TopicRecord]) -> list[TopicRecord]:
    """Add the records that the plan would have sent by their time, once each; return the others.

    One may have been appended long after it was due: a broker that hangs stores later what it had
    received. The flush record may not have been noted either.
    """
    _, flush = stream.plan.flush_record(0)
    start_ms = stream.plan.schedule.start_wall_ms
    last_s = (max(record.append_ms for record in unknown) - start_ms) / 1000
    wanted = {record.value for record in unknown}
    planned: dict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for batch in stream.plan.batches():
        if len(batch.slots) and batch.scheduled_s[0] > last_s + MARGIN_S:
            break
        sent = zip(batch.values, batch.numbers.tolist(), batch.flags.tolist(), strict=True)
        for value, number, flags in sent:
            if value in wanted:
                planned[value].append((number, flags))
    rows = stream.acknowledged.rows()[:, :2]
    numbers = [number for events in planned.values() for number, _ in events]
    rows = rows[np.isin(rows[:, 0], numbers)]
    noted = Counter((number, flags) for number, flags in rows.tolist())
    unnoted = {
        value: list((Counter(events) - noted).elements()) for value, events in planned.items()
    }
    others = []
    for record in unknown:
        if found := unnoted.get(record.value):
            number, flags = found.pop(0)
            stream.acknowledged.add(
                number, flags, record.partition, record.offset, record.append_ms
            )
        elif f'"{flush.event_id}"'.encode() in record.value and stream.flush is None:
            stream.flush = msgspec.json.decode(record.value, type=type(flush))
            stream.flush_position = record.partition, record.offset
            stream.flush_append_ms = record.append_ms
        else:
            others.append(record)
    return others
