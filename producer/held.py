"""What do the topics hold of a run? The acknowledged records, in the order of each topic."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from producer.hashing import Bools, Ints
from producer.oracle import AHEAD_MS
from producer.stream import Mark, StreamPlan

CHUNK = 65_536
"""How many records are drawn again at once."""


class Acknowledged:
    """The records that the broker has acknowledged, each with where and when it was appended."""

    def __init__(self) -> None:
        self._rows = array("q")

    def __len__(self) -> int:
        return len(self._rows) // 5

    def add(self, number: int, marks: int, partition: int, offset: int, append_ms: int) -> None:
        """Note one record: its event's number and marks, and what the delivery report says."""
        self._rows.extend((number, marks, partition, offset, append_ms))

    def in_topic_order(self) -> Ints:
        """Return rows (number, marks, partition, offset, append time) in the topic's order."""
        rows = np.array(self._rows, dtype=np.int64).reshape(-1, 5)
        return rows[np.lexsort((rows[:, 3], rows[:, 2], rows[:, 4]))]


@dataclass(slots=True)
class Sent:
    """What became of one plan: its acknowledged records, and the record that only moved watermarks, if any."""

    plan: StreamPlan
    acknowledged: Acknowledged = field(default_factory=Acknowledged)
    flush: Any = None
    flush_append_ms: int | None = None
    """When the broker had that last record, in epoch ms."""


class Held:
    """What a topic holds of a run, in its order."""

    def __init__(self, sent: Sent) -> None:
        self.plan, self.flush, self.flush_append_ms = sent.plan, sent.flush, sent.flush_append_ms
        self.rows = sent.acknowledged.in_topic_order()
        self.malformed: Bools = (self.rows[:, 1] & Mark.MALFORMED) > 0
        self.event_ms: Ints = self.plan.event_ms(self.rows[:, 0])
        self.ahead: Bools = self.event_ms > self.rows[:, 4] + AHEAD_MS

    def records(self) -> Iterator[Any]:
        """Yield the records that jobs by event time can read, the flush record not among them."""
        good = self.rows[~self.malformed & ~self.ahead][:, 0]
        for start in range(0, len(good), CHUNK):
            yield from self.plan.records(good[start : start + CHUNK])

    def too_late(self) -> set[str]:
        """Return the ids of the events that came later than the watermark."""
        beyond = self.rows[(self.rows[:, 1] & Mark.TOO_LATE) > 0][:, 0]
        return {record.event_id for record in self.plan.records(beyond)}
