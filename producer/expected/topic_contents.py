"""What a run's topics contain: acknowledged records, with where and when they were appended."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from events.constants import FUTURE_TOLERANCE
from events.times import duration_ms
from producer.hashing import Bools, Ints
from producer.streams.stream_plan import FaultFlag, StreamPlan

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

    def in_topic_order(self) -> Ints:
        """Return rows (number, flags, partition, offset, append time) in the topic's order."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 5)
        return rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 4]))]


@dataclass(slots=True)
class PublishedStream:
    """What a plan has published: its acknowledged records, and its flush record, if any."""

    plan: StreamPlan
    acknowledged: AcknowledgedRecords = field(default_factory=AcknowledgedRecords)
    flush: Any = None
    flush_append_ms: int | None = None
    """When the broker appended the flush record, in epoch ms."""


class TopicContents:
    """What a topic contains of a run, in the topic's order."""

    def __init__(self, stream: PublishedStream) -> None:
        self.plan, self.flush, self.flush_append_ms = (
            stream.plan,
            stream.flush,
            stream.flush_append_ms,
        )
        self.rows = stream.acknowledged.in_topic_order()
        self.malformed: Bools = (self.rows[:, 1] & FaultFlag.MALFORMED) > 0
        self.event_ms: Ints = self.plan.event_ms(self.rows[:, 0])
        self.future: Bools = self.event_ms > self.rows[:, 4] + duration_ms(FUTURE_TOLERANCE)

    def records(self) -> Iterator[Any]:
        """Yield the records that jobs by event time can read, without the flush record."""
        readable = self.rows[~self.malformed & ~self.future][:, 0]
        for start in range(0, len(readable), RECORDS_PER_CHUNK):
            yield from self.plan.records(readable[start : start + RECORDS_PER_CHUNK])

    def too_late(self) -> set[str]:
        """Return the ids of the events beyond the watermark."""
        beyond = self.rows[(self.rows[:, 1] & FaultFlag.TOO_LATE) > 0][:, 0]
        return {record.event_id for record in self.plan.records(beyond)}
