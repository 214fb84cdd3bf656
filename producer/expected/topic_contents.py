"""Collect what a topic contains of some runs: the acknowledged records with their positions."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from events.constants import FUTURE_TOLERANCE
from events.times import duration_ms, to_ms
from producer.hashing import Bools, Ints
from producer.streams.stream_plan import FaultFlag, StreamPlan

ROW_BYTES = 5 * 8
"""A record is five integers of 64 bits."""
RECORDS_PER_CHUNK = 65_536
"""How many records are drawn again at once."""


class AcknowledgedRecords:
    """The records that the broker has acknowledged."""

    def __init__(self) -> None:
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def add(self, number: int, flags: int, partition: int, offset: int, append_ms: int) -> None:
        """Add one record: its event's number and fault flags, and what the delivery report says."""
        self._rows.extend((number, flags, partition, offset, append_ms))

    @classmethod
    def from_bytes(cls, data: bytes) -> "AcknowledgedRecords":
        """Return the records of `rows().tobytes()`, without a row that is cut off at the end."""
        records = cls()
        records._rows.frombytes(data[: len(data) // ROW_BYTES * ROW_BYTES])
        return records

    def rows(self) -> Ints:
        """Return rows (number, flags, partition, offset, append time)."""
        return np.array(self._rows, dtype=np.int64).reshape(-1, 5)


@dataclass(slots=True)
class PublishedStream:
    """What a plan has published: its acknowledged records, and its flush record, if any."""

    plan: StreamPlan
    acknowledged: AcknowledgedRecords = field(default_factory=AcknowledgedRecords)
    flush: Any = None
    flush_append_ms: int | None = None
    """When the broker appended the flush record, in epoch ms."""
    flush_position: tuple[int, int] | None = None
    """Partition and offset of the flush record."""


class TopicContents:
    """What a topic contains of one run, or of several runs of the same scenario, in its order.

    `rows` has a row per record: number, flags, partition, offset, append time (ms), and the place
    of its run. `flushes` has the acknowledged flush records in their order, with append times (ms).
    """

    def __init__(self, runs: Sequence[PublishedStream]) -> None:
        self.plans = [run.plan for run in runs]
        self.flushes: list[tuple[Any, int]] = [
            (run.flush, run.flush_append_ms) for run in runs if run.flush_append_ms is not None
        ]
        rows = np.concatenate(
            [np.insert(run.acknowledged.rows(), 5, place, axis=1) for place, run in enumerate(runs)]
        )
        self.rows: Ints = rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 4]))]
        self.malformed: Bools = (self.rows[:, 1] & FaultFlag.MALFORMED) > 0
        self.event_ms: Ints = np.zeros(len(self.rows), dtype=np.int64)
        for place, plan in enumerate(self.plans):
            own = self.rows[:, 5] == place
            self.event_ms[own] = plan.event_ms(self.rows[own, 0])
        self.future: Bools = self.event_ms > self.rows[:, 4] + duration_ms(FUTURE_TOLERANCE)

    def records(self) -> Iterator[Any]:
        """Yield the records that event-time jobs can read, without the flush records."""
        yield from self.drawn(self.rows[~self.malformed & ~self.future])

    def latest_ms(self) -> int:
        """Return the latest event time that event-time jobs have seen, flush records included.

        It is 0 if they have seen none.
        """
        seen = self.event_ms[~self.malformed & ~self.future]
        flushes = [to_ms(flush.event_time) for flush, _ in self.flushes]
        return max([0, *flushes, int(seen.max()) if len(seen) else 0])

    def too_late(self) -> set[str]:
        """Return the ids of the events beyond the watermark."""
        return {record.event_id for record in self.too_late_records()}

    def too_late_records(self) -> Iterator[Any]:
        """Yield the records of the events beyond the watermark."""
        yield from self.drawn(self.rows[(self.rows[:, 1] & FaultFlag.TOO_LATE) > 0])

    def drawn(self, rows: Ints) -> Iterator[Any]:
        """Yield the events of some rows, drawn again."""
        for plan, own in self.by_run(rows):
            for start in range(0, len(own), RECORDS_PER_CHUNK):
                yield from plan.records(own[start : start + RECORDS_PER_CHUNK, 0])

    def by_run(self, rows: Ints) -> Iterator[tuple[StreamPlan, Ints]]:
        """Yield the rows in their order, in pieces of one run each."""
        for own in np.split(rows, np.flatnonzero(np.diff(rows[:, 5])) + 1):
            if len(own):
                yield self.plans[own[0, 5]], own
