"""What does a stream send, in which order? Its events and the faults make the records of each stretch.

An event has a number; the schedule has a slot for each. An event is sent in the slot of its own number, unless
a fault moves it to a later one; copies take a later slot beside its owner. All of it is a function of (seed,
number). What the events say is the matter of each stream: `plan` (racks), `clicks`, `actions`.
"""

import heapq
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from events.records import Event
from events.topics import Topic
from producer.faults import (
    WATERMARK_S,
    AnyFault,
    Duplicate,
    Fault,
    Future,
    Late,
    Malformed,
    OfEvents,
    OutOfOrder,
    TooLate,
)
from producer.hashing import Bools, Ints, none_of, one_in_each_block, uniform
from producer.malformed import MalformedKind, spoil, usual_kinds
from producer.schedule import Schedule

LARGEST_STRETCH = 16_384
"""Events drawn and encoded at once: enough to spread fixed costs, few enough to stay in the cache."""
STRETCH_S = 0.25
"""How much of a slow schedule is drawn at once, in seconds."""
FLUSH_SUBJECT = "flush"
"""The rack, user or impression of a record that only moves watermarks."""


class Mark(IntFlag):
    """What a fault did to a record."""

    COPY = 1
    OUT_OF_ORDER = 2
    LATE = 4
    TOO_LATE = 8
    FUTURE = 16
    MALFORMED = 32
    ORPHAN = 64


Marks = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Batch:
    """Encoded records of one topic in the order of sending.

    Each has its slot and when that is due (seconds after the start), its event's number and marks.
    """

    topic: Topic
    slots: Ints
    due_s: NDArray[np.float64]
    numbers: Ints
    marks: Marks
    keys: Sequence[bytes]
    values: Sequence[bytes]


class StreamPlan(ABC):
    """The records of one topic in one run."""

    topic: ClassVar[Topic]
    watermark_s: ClassVar[float] = WATERMARK_S
    """How late a record may be, in seconds of event time, for the job with the longest watermark."""
    settling_s: ClassVar[float] = 0.0
    """How much later than the last event a flush record must be to close all that is open."""

    def __init__(self, seed: int, schedule: Schedule, faults: Sequence[AnyFault]) -> None:
        self.seed = seed
        self.schedule = schedule
        self._late = _only(Late, faults)
        self._too_late = _only(TooLate, faults)
        self._out_of_order = _only(OutOfOrder, faults)
        self._duplicate = _only(Duplicate, faults)
        self._malformed = _only(Malformed, faults)
        self._future = _only(Future, faults)

    @property
    @abstractmethod
    def run_id(self) -> str:
        """What the ids of this run's events begin with: two runs have no event in common."""

    @property
    @abstractmethod
    def subjects(self) -> int:
        """Every how many numbers the same subject (rack, user) has its turn."""

    @abstractmethod
    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times that the events with these numbers tell, in epoch milliseconds."""

    @abstractmethod
    def records(self, numbers: Ints) -> Sequence[Any]:
        """Return the events with these numbers as records of the topic, without their scheduled time."""

    @abstractmethod
    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the events with these numbers, none of them spoiled."""

    @abstractmethod
    def flush_record(self, event_ms: int) -> tuple[str, Event]:
        """Return key and record of an event that only moves the watermark."""

    def marks(self, numbers: Ints) -> Marks:
        """Tell what the faults do to the events with these numbers (no event is called a copy)."""
        marks = np.zeros(len(numbers), dtype=np.uint8)
        for fault, mark in (
            (self._out_of_order, Mark.OUT_OF_ORDER),
            (self._late, Mark.LATE),
            (self._too_late, Mark.TOO_LATE),
            (self._future, Mark.FUTURE),
            (self._malformed, Mark.MALFORMED),
        ):
            if fault:
                marks[self._hit(fault, numbers)] |= np.uint8(mark)
        # A clock is either ahead or behind.
        marks[(marks & Mark.FUTURE) > 0] &= ~np.uint8(Mark.TOO_LATE)
        return marks

    def malformed_kinds(self, numbers: Ints) -> list[MalformedKind]:
        """Return in which way each of these events is spoiled, given that it is."""
        kinds = self._kinds()
        if self._malformed is None or not kinds:
            return []
        _, blocks = one_in_each_block(self._malformed.share, self.seed, "malformed", numbers)
        return [kinds[block % len(kinds)] for block in blocks.tolist()]

    def values(self, numbers: Ints) -> list[bytes]:
        """Return the values of these events' records, spoiled where they are malformed."""
        return self._keys_and_values(numbers, self.marks(numbers))[1]

    def batches(self, edges: Iterable[int] | None = None) -> Iterator[Batch]:
        """Draw and encode the records, a stretch of the schedule at a time; by default as it suits the rate.

        `edges` are the numbers at which stretches begin and end, from 0 on; there is one batch for each.
        """
        waiting: list[_Waiting] = []
        start: int | None = None
        for stop in stretches(self.schedule) if edges is None else edges:
            if start is not None:
                batch, moved = self._drawn(np.arange(start, stop, dtype=np.int64))
                for record in moved:
                    heapq.heappush(waiting, record)
                due = []
                while waiting and waiting[0][0] < stop:
                    due.append(heapq.heappop(waiting))
                yield self._merged(batch, due) if due else batch
            start = stop

    def _drawn(self, numbers: Ints) -> tuple[Batch, list["_Waiting"]]:
        """Return what is sent in its own slot, and what is sent in a later one."""
        numbers = numbers[~self._silent(numbers)]
        if not len(numbers):
            return self._batch(numbers, numbers, np.zeros(0, dtype=np.uint8), [], []), []
        marks = self.marks(numbers)
        slots = self._slots(numbers, marks)
        keys, values = self._keys_and_values(numbers, marks)
        moved = [
            (int(slots[i]), int(numbers[i]), 0, int(marks[i]), keys[i], values[i])
            for i in np.flatnonzero(slots != numbers).tolist()
        ]
        for i, copy_slots in self._copies(numbers, slots):
            moved += [
                (slot, int(numbers[i]), copy, int(marks[i]) | Mark.COPY, keys[i], values[i])
                for copy, slot in enumerate(copy_slots, start=1)
            ]
        own = np.flatnonzero(slots == numbers)
        if len(own) < len(numbers):
            places = own.tolist()
            keys, values = [keys[i] for i in places], [values[i] for i in places]
            slots, numbers, marks = slots[own], numbers[own], marks[own]
        return self._batch(slots, numbers, marks, keys, values), moved

    def _keys_and_values(self, numbers: Ints, marks: Marks) -> tuple[list[bytes], list[bytes]]:
        scheduled_ms = self.schedule.due_ms(self._slots(numbers, marks)) if self.schedule.paced else None
        keys, values = self.encoded(numbers, scheduled_ms)
        bad = np.flatnonzero(marks & Mark.MALFORMED)
        if len(bad):
            spoiled = zip(self.records(numbers[bad]), self.malformed_kinds(numbers[bad]), strict=True)
            for place, (record, kind) in zip(bad.tolist(), spoiled, strict=True):
                values[place] = spoil(record, kind)
        return keys, values

    def _slots(self, numbers: Ints, marks: Marks) -> Ints:
        """Return the slot in which each event is first sent."""
        slots = numbers.copy()
        if self._out_of_order:
            hit = (marks & Mark.OUT_OF_ORDER) > 0
            lot = uniform(self.seed, "places", numbers[hit])
            slots[hit] += self._overtaking(1 + (lot * self._out_of_order.places).astype(np.int64))
        if self._late:
            hit = (marks & Mark.LATE) > 0
            delays = self.schedule.slots(self._milliseconds(self._late, numbers[hit]) / 1000)
            slots[hit] = numbers[hit] + np.maximum(1, delays)
        return self._within(slots)

    def _overtaking(self, places: Ints) -> Ints:
        """Return by how many slots an event moves to come after so many more of its subject."""
        return places * self.subjects + 1

    def _copies(self, numbers: Ints, slots: Ints) -> Iterator[tuple[int, list[int]]]:
        """Return the place of each event that is sent again, and in which slots."""
        if not self._duplicate:
            return
        hit = np.flatnonzero(self._hit(self._duplicate, numbers))
        numbers, slots, seed = numbers[hit], slots[hit], self.seed
        copies = 1 + (uniform(seed, "copies", numbers) * self._duplicate.copies).astype(np.int64)
        seconds = [uniform(seed, f"delay of copy {copy}", numbers) * self._duplicate.max_s for copy in (1, 2)]
        copy_slots = self._within(slots + np.stack([self.schedule.slots(s) for s in seconds])).T
        for place, count, row in zip(hit.tolist(), copies.tolist(), copy_slots.tolist(), strict=True):
            yield place, row[:count]

    def _within(self, slots: Ints) -> Ints:
        """Return the slots, with those after the end of the run moved to its last."""
        return slots if self.schedule.count is None else np.minimum(slots, self.schedule.count - 1)

    def _silent(self, numbers: Ints) -> Bools:
        """Tell which events are not sent at all."""
        return none_of(numbers)

    def _hit(self, fault: OfEvents, numbers: Ints) -> Bools:
        if isinstance(fault, Malformed) and not self._kinds():
            return none_of(numbers)
        return one_in_each_block(fault.share, self.seed, fault.name, numbers)[0]

    def _kinds(self) -> Sequence[MalformedKind]:
        """Return the ways in which this stream's records are spoiled."""
        usual = usual_kinds(self.topic)
        if self._malformed is None or self._malformed.kinds is None:
            return usual
        return [kind for kind in self._malformed.kinds if kind == "large" or kind in usual]

    def _behind_ms(self, numbers: Ints, marks: Marks) -> Ints:
        """Return by how much the fault too-late sets back the clocks of these events, in milliseconds.

        Where the watermark is longer than the usual one, they are set back by so much more.
        """
        behind = np.zeros(len(numbers), dtype=np.int64)
        if self._too_late:
            hit = (marks & Mark.TOO_LATE) > 0
            beyond = int(1000 * (self.watermark_s - WATERMARK_S))
            behind[hit] = beyond + self._milliseconds(self._too_late, numbers[hit])
        return behind

    def _put_ahead(self, event_ms: Ints, numbers: Ints, marks: Marks) -> Ints:
        """Return the event times, with those that the fault future hits ahead of the wall clock."""
        if self._future:
            hit = (marks & Mark.FUTURE) > 0
            paced, start_ms = self.schedule.paced, self.schedule.start_wall_ms
            sent = self.schedule.due_ms(numbers[hit]) if paced else start_ms
            event_ms[hit] = sent + self._milliseconds(self._future, numbers[hit])
        return event_ms

    def _milliseconds(self, fault: Late | TooLate | Future, numbers: Ints) -> Ints:
        """Return by how much the fault moves each of these events, in milliseconds of event time."""
        lot = uniform(self.seed, f"amount of {fault.name}", numbers)
        return np.floor(1000 * (fault.min_s + (fault.max_s - fault.min_s) * lot)).astype(np.int64)

    def _batch(
        self, slots: Ints, numbers: Ints, marks: Marks, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> Batch:
        return Batch(self.topic, slots, self.schedule.due_s(slots), numbers, marks, keys, values)

    def _merged(self, batch: Batch, due: list["_Waiting"]) -> Batch:
        # A stable sort, with the slots' owners first: whoever was moved into a slot is sent after its owner.
        slots = np.concatenate([batch.slots, np.array([d[0] for d in due], dtype=np.int64)])
        order = np.argsort(slots, kind="stable")
        numbers = np.concatenate([batch.numbers, np.array([d[1] for d in due], dtype=np.int64)])
        marks = np.concatenate([batch.marks, np.array([d[3] for d in due], dtype=np.uint8)])
        keys, values = [*batch.keys, *(d[4] for d in due)], [*batch.values, *(d[5] for d in due)]
        places = order.tolist()
        return self._batch(
            slots[order],
            numbers[order],
            marks[order],
            [keys[i] for i in places],
            [values[i] for i in places],
        )


_Waiting = tuple[int, int, int, int, bytes, bytes]
"""A record for a later slot: slot, number, copy, marks, key, value. It sorts in the order of sending."""


def stretches(schedule: Schedule) -> Iterator[int]:
    """Return the slots at which a schedule is cut to be drawn a piece at a time: 0, ..., its end if it has one."""
    size = LARGEST_STRETCH
    if schedule.paced:
        size = min(size, max(1, int(schedule.rate * STRETCH_S)))
    edge = 0
    while schedule.count is None or edge < schedule.count:
        yield edge
        edge += size
    yield schedule.count


def run_name(seed: int, racks: int, start_event_ms: int, first_sequence: int) -> str:
    """Return what the ids of a run's events begin with."""
    return sha256(f"{seed}|{racks}|{start_event_ms}|{first_sequence}".encode()).hexdigest()[:8]


def seed_of(seed: int, topic: Topic) -> int:
    """Return a stream's own seed, so that a fault does not hit the same numbers in all of them."""
    return zlib.crc32(f"{seed}|{topic.name}".encode())


_One = TypeVar("_One", bound=Fault)


def _only(kind: type[_One], faults: Sequence[Fault]) -> _One | None:
    return next((fault for fault in faults if isinstance(fault, kind)), None)
