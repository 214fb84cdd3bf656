"""Compare the archive with the topics: each record must be archived exactly once."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from kafka import KafkaConsumer

from demo.comparison import Comparison
from demo.outputs import partitions_of
from demo.verdict import Truth
from events.settings import Settings
from events.topics import ALL, EVENT_TOPICS
from producer.hashing import Bools, Ints
from producer.positions import OFFSET_BITS, OFFSET_MASK, position_of, split_position

_COMPACTED = {topic.name for topic in ALL if topic.compacted}
_EVENTS = {topic.name for topic in EVENT_TOPICS}


@dataclass(frozen=True, slots=True)
class Archived:
    """The sorted positions of a topic's archived records, twice where one is archived twice.

    `unreadable` has those of the records that could not be read.
    """

    positions: Ints
    unreadable: Ints


class ArchiveReader:
    """Reads an archive again and again; a file that it knows is not read twice.

    It shares no code with the compaction, which it checks: a mistake there in which files count
    must not be repeated here.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[Path, Ints] = {}

    def read(self) -> dict[str, Archived]:
        """Return what is archived, by the topics' names with their prefix."""
        names = sorted(
            {path.name for path in self._folder.glob("landing/*")}
            | {path.name for path in self._folder.glob("compacted/*")}
        )
        return {name: self._topic(name) for name in names}

    def _topic(self, name: str) -> Archived:
        files = list(self._files(name))
        none = [np.empty(0, dtype=np.int64)]
        unreadable = [self._positions(file) for file in files if "kind=unreadable" in file.parts]
        readable = [self._positions(file) for file in files if "kind=unreadable" not in file.parts]
        return Archived(
            np.sort(np.concatenate([*none, *readable, *unreadable])),
            np.sort(np.concatenate([*none, *unreadable])),
        )

    def _files(self, name: str) -> Iterator[Path]:
        landing, compacted = self._folder / "landing" / name, self._folder / "compacted" / name
        merged: set[str] = set()
        for file in compacted.glob("kind=*/date=*/hour=*/records.parquet"):
            merged.update(json.loads(pq.read_metadata(file).metadata[b"contains"]))
            yield file
        for small in _listed_files(landing / "_spark_metadata"):
            if small not in merged:
                yield landing / small

    def _positions(self, file: Path) -> Ints:
        # A compacted file is replaced by a longer one of the same name.
        if file not in self._known or file.name == "records.parquet":
            table = pq.ParquetFile(file).read(columns=["partition", "offset"])
            partitions = table["partition"].to_numpy().astype(np.int64)
            self._known[file] = position_of(partitions, table["offset"].to_numpy())
        return self._known[file]


def _listed_files(log: Path) -> list[str]:
    """Return the files that the file sink's log lists: every tenth entry repeats those before."""
    entries = sorted(
        (path for path in log.glob("[0-9]*")), key=lambda path: int(path.name.partition(".")[0])
    )
    starts = [at for at, path in enumerate(entries) if path.suffix == ".compact"]
    lines = [
        line
        for path in entries[starts[-1] if starts else 0 :]
        for line in path.read_text(encoding="utf-8").splitlines()[1:]
    ]
    return list(dict.fromkeys("/".join(json.loads(line)["path"].split("/")[-4:]) for line in lines))


def read_topic_offsets(settings: Settings) -> dict[str, dict[int, range]]:
    """Return for each topic and partition which offsets it holds now."""
    consumer = KafkaConsumer(
        bootstrap_servers=settings.kafka_bootstrap_servers.split(","), enable_auto_commit=False
    )
    try:
        topic_offsets: dict[str, dict[int, range]] = {}
        for topic in ALL:
            name = settings.topic(topic)
            parts = partitions_of(consumer, name)
            first, end = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
            topic_offsets[topic.name] = {
                part.partition: range(first[part], end[part]) for part in parts
            }
        return topic_offsets
    finally:
        consumer.close()


class ArchiveCheck:
    """Compares an archive with the topics, again and again until it holds all.

    All is what the topics held when the check was made. Later records may be archived: racks that
    have fallen silent give new ones all the time.
    """

    def __init__(self, settings: Settings, folder: Path, truth: Truth) -> None:
        self._settings, self._reader = settings, ArchiveReader(folder)
        self._due = read_topic_offsets(settings)
        positions: dict[str, list[int]] = defaultdict(list)
        for row in truth.dead_letters:
            if row["reason"] == "unreadable":
                positions[row["source_topic"]].append(position_of(row["partition"], row["offset"]))
        self._unreadable = {name: np.array(each) for name, each in positions.items()}

    def compare(self) -> Comparison:
        """Compare what the topics hold with what is archived now."""
        archived = {
            name.removeprefix(self._settings.topic_prefix): found
            for name, found in self._reader.read().items()
        }
        topic_offsets = read_topic_offsets(self._settings)
        return compare_archive(topic_offsets, archived, self._unreadable, due=self._due)


def compare_archive(
    topic_offsets: Mapping[str, Mapping[int, range]],
    archived: Mapping[str, Archived],
    unreadable: Mapping[str, Ints],
    *,
    due: Mapping[str, Mapping[int, range]] | None = None,
) -> Comparison:
    """Compare what topics hold with what is archived of them.

    `unreadable` has the positions that must be archived as unreadable, of the topics of events. Of
    a compacted topic only its last record must be archived, as the broker may have removed others.
    `due` has the offsets of the records that must be archived, by default all.
    """
    expected = actual = 0
    missing, wrong = list[str](), list[str]()
    nothing = Archived(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    for name, partitions in topic_offsets.items():
        found = archived.get(name, nothing)
        positions, counts = np.unique(found.positions, return_counts=True)
        kept = positions[_is_kept(positions, partitions)]
        stored = kept if name in _COMPACTED else np.intersect1d(kept, _positions_in(partitions))
        wanted = _wanted(partitions, (due or topic_offsets)[name], last_only=name in _COMPACTED)
        expected, actual = expected + len(np.union1d(wanted, stored)), actual + len(kept)
        missing += _sentences(name, np.setdiff1d(wanted, positions), "is not archived")
        wrong += _sentences(name, positions[counts > 1], "is archived more than once")
        wrong += _sentences(name, np.setdiff1d(kept, stored), "is archived and not in its topic")
        if name in _EVENTS:
            bad = unreadable.get(name, nothing.positions)
            other = np.setxor1d(bad[np.isin(bad, kept)], found.unreadable)
            other = other[_is_kept(other, partitions)]
            wrong += _sentences(name, other, "is archived with the wrong kind")
    return Comparison(expected, actual, missing, wrong)


def _wanted(stored: Mapping[int, range], due: Mapping[int, range], *, last_only: bool) -> Ints:
    """Return the positions of those records that are due and not removed by retention."""
    kept = {
        n: range(max(stored[n].start, offsets.start), offsets.stop) for n, offsets in due.items()
    }
    return _positions_in({n: offsets[-1:] for n, offsets in kept.items()} if last_only else kept)


def _positions_in(partitions: Mapping[int, range]) -> Ints:
    parts = [np.empty(0, dtype=np.int64)]
    for number, offsets in partitions.items():
        parts.append(
            np.arange(position_of(number, offsets.start), position_of(number, offsets.stop))
        )
    return np.sort(np.concatenate(parts))


def _is_kept(positions: Ints, partitions: Mapping[int, range]) -> Bools:
    """Tell which positions retention has not removed."""
    first = np.zeros(1 + max(partitions, default=0), dtype=np.int64)
    for number, offsets in partitions.items():
        first[number] = offsets.start
    numbers = np.minimum(positions >> OFFSET_BITS, len(first) - 1)
    kept: Bools = (positions & OFFSET_MASK) >= first[numbers]
    return kept


def _sentences(topic: str, positions: Ints, complaint: str) -> Iterator[str]:
    for position in positions.tolist():
        partition, offset = split_position(position)
        yield f"record {offset} of partition {partition} of {topic} {complaint}"
