"""Draw the records of a stream in the order of sending, a chunk at a time.

An event has a number, and the schedule has a slot for each number. An event is sent in its own slot
unless a fault moves it to a later one; copies take a later slot, after its owner. All of this is a
function of (seed, number). What the events contain is up to each stream: `reading_plan`, `clicks`,
`actions`.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from hashlib import sha256
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from events.cli import UserFacingError
from events.records import Event
from events.topics import Topic
from producer.faults import (
    DELAY_MARGIN_S,
    WATERMARK_S,
    AnyFault,
    Duplicate,
    EventFault,
    Fault,
    Future,
    Late,
    Malformed,
    OutOfOrder,
    TooLate,
)
from producer.hashing import Bools, Ints, none_of, one_in_each_block, uniform
from producer.malformed import MalformedKind, corrupt, default_kinds
from producer.pacing.schedule import Schedule

MAX_CHUNK_EVENTS = 16_384
"""Events drawn and encoded at once: enough to spread fixed costs, few enough for the cache."""
CHUNK_S = 0.25
"""How much of a slow schedule is drawn at once, in seconds."""
FLUSH_SUBJECT = "flush"
"""The rack, user or impression of a flush record, which only moves watermarks."""


class FaultFlag(IntFlag):
    """What a fault did to a record."""

    COPY = 1
    OUT_OF_ORDER = 2
    LATE = 4
    TOO_LATE = 8
    FUTURE = 16
    MALFORMED = 32
    ORPHAN = 64


FaultFlags = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Batch:
    """Encoded records of one topic in the order of sending.

    Each has its slot, when that is due (seconds after the start), its event's number and flags.
    """

    topic: Topic
    slots: Ints
    scheduled_s: NDArray[np.float64]
    numbers: Ints
    flags: FaultFlags
    keys: Sequence[bytes]
    values: Sequence[bytes]


class StreamPlan(ABC):
    """The records of one topic in one run."""

    topic: ClassVar[Topic]
    watermark_s: ClassVar[float] = WATERMARK_S
    """The longest watermark of the jobs that read the topic, in seconds of event time."""
    flush_delay_s: ClassVar[float] = 0.0
    """How much later than the last event a flush record must be to close all open state."""

    def __init__(self, seed: int, schedule: Schedule, faults: Sequence[AnyFault]) -> None:
        self.seed = seed
        self.schedule = schedule
        self._late = _find(Late, faults)
        self._too_late = _find(TooLate, faults)
        self._out_of_order = _find(OutOfOrder, faults)
        self._duplicate = _find(Duplicate, faults)
        self._malformed = _find(Malformed, faults)
        self._future = _find(Future, faults)

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The prefix of this run's event ids; no other run has the same."""

    @property
    @abstractmethod
    def subjects(self) -> int:
        """The number of subjects (racks, users), which take turns."""

    @abstractmethod
    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times in the events with these numbers, in epoch milliseconds."""

    @abstractmethod
    def records(self, numbers: Ints) -> Sequence[Any]:
        """Return the events with these numbers as records, without their scheduled time."""

    @abstractmethod
    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the events with these numbers, none of them malformed."""

    @abstractmethod
    def flush_record(self, event_ms: int) -> tuple[str, Event]:
        """Return key and record of an event that only moves the watermark."""

    def check_delays(self) -> None:
        """Raise `UserFacingError` if out-of-order could delay a record past the watermark."""
        if self._out_of_order is None:
            return
        places = self._out_of_order.places
        slots = int(self._displacement(np.array([places], dtype=np.int64))[0])
        if self.schedule.count is not None:
            slots = min(slots, self.schedule.count)  # `_within` sends it at the end of the run
        late_s = slots / self.schedule.event_time_rate
        if self._duplicate:
            late_s += self._duplicate.max_s
        if late_s > self.watermark_s - DELAY_MARGIN_S:
            raise UserFacingError(
                f"with {places} places of the fault out-of-order a record of {self.topic.name} "
                f"could be {late_s:,.0f} s late, beyond the watermark of {self.watermark_s:,.0f} s "
                f"less {DELAY_MARGIN_S} s: lower places"
                f"{', or max_s of duplicate' if self._duplicate else ''}."
            )

    def flags(self, numbers: Ints) -> FaultFlags:
        """Return what the faults do to the events with these numbers, without `COPY`."""
        flags = np.zeros(len(numbers), dtype=np.uint8)
        for fault, flag in (
            (self._out_of_order, FaultFlag.OUT_OF_ORDER),
            (self._late, FaultFlag.LATE),
            (self._too_late, FaultFlag.TOO_LATE),
            (self._future, FaultFlag.FUTURE),
            (self._malformed, FaultFlag.MALFORMED),
        ):
            if fault:
                flags[self._affected(fault, numbers)] |= np.uint8(flag)
        # A clock cannot be both ahead and behind.
        flags[(flags & FaultFlag.FUTURE) > 0] &= ~np.uint8(FaultFlag.TOO_LATE)
        return flags

    def malformed_kinds(self, numbers: Ints) -> list[MalformedKind]:
        """Return the kind of corruption of each of these events, all of which are malformed."""
        kinds = self._kinds()
        if self._malformed is None or not kinds:
            return []
        _, blocks = one_in_each_block(self._malformed.share, self.seed, "malformed", numbers)
        return [kinds[block % len(kinds)] for block in blocks.tolist()]

    def values(self, numbers: Ints) -> list[bytes]:
        """Return the values of these events' records, corrupted where they are malformed."""
        return self._keys_and_values(numbers, self.flags(numbers))[1]

    def batches(self, edges: Iterable[int] | None = None) -> Iterator[Batch]:
        """Draw and encode the records, one batch per chunk of the schedule.

        `edges` are the numbers that bound the chunks, from 0 on; by default they suit the rate.
        """
        waiting: list[_Waiting] = []
        start: int | None = None
        for stop in chunk_edges(self.schedule) if edges is None else edges:
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
        flags = self.flags(numbers)
        slots = self._slots(numbers, flags)
        keys, values = self._keys_and_values(numbers, flags)
        moved = [
            (int(slots[i]), int(numbers[i]), 0, int(flags[i]), keys[i], values[i])
            for i in np.flatnonzero(slots != numbers).tolist()
        ]
        for i, copy_slots in self._copies(numbers, slots):
            moved += [
                (slot, int(numbers[i]), copy, int(flags[i]) | FaultFlag.COPY, keys[i], values[i])
                for copy, slot in enumerate(copy_slots, start=1)
            ]
        unmoved = np.flatnonzero(slots == numbers)
        if len(unmoved) < len(numbers):
            places = unmoved.tolist()
            keys, values = [keys[i] for i in places], [values[i] for i in places]
            slots, numbers, flags = slots[unmoved], numbers[unmoved], flags[unmoved]
        return self._batch(slots, numbers, flags, keys, values), moved

    def _keys_and_values(self, numbers: Ints, flags: FaultFlags) -> tuple[list[bytes], list[bytes]]:
        scheduled_ms = (
            self.schedule.scheduled_ms(self._slots(numbers, flags)) if self.schedule.paced else None
        )
        keys, values = self.encoded(numbers, scheduled_ms)
        malformed = np.flatnonzero(flags & FaultFlag.MALFORMED)
        if len(malformed):
            rows = zip(
                self.records(numbers[malformed]),
                self.malformed_kinds(numbers[malformed]),
                strict=True,
            )
            for place, (record, kind) in zip(malformed.tolist(), rows, strict=True):
                values[place] = corrupt(record, kind)
        return keys, values

    def _slots(self, numbers: Ints, flags: FaultFlags) -> Ints:
        """Return the slot in which each event is first sent."""
        slots = numbers.copy()
        if self._out_of_order:
            affected = (flags & FaultFlag.OUT_OF_ORDER) > 0
            drawn = uniform(self.seed, "places", numbers[affected])
            slots[affected] += self._displacement(
                1 + (drawn * self._out_of_order.places).astype(np.int64)
            )
        if self._late:
            affected = (flags & FaultFlag.LATE) > 0
            delays = self.schedule.slots(self._milliseconds(self._late, numbers[affected]) / 1000)
            slots[affected] = numbers[affected] + np.maximum(1, delays)
        return self._within(slots)

    def _displacement(self, places: Ints) -> Ints:
        """Return by how many slots an event moves to follow `places` more of its subject."""
        return places * self.subjects + 1

    def _copies(self, numbers: Ints, slots: Ints) -> Iterator[tuple[int, list[int]]]:
        """Yield the position of each event that is sent again, with the slots of its copies."""
        if not self._duplicate:
            return
        affected = np.flatnonzero(self._affected(self._duplicate, numbers))
        numbers, slots, seed = numbers[affected], slots[affected], self.seed
        copies = 1 + (uniform(seed, "copies", numbers) * self._duplicate.copies).astype(np.int64)
        delays_s = [
            uniform(seed, f"delay of copy {copy}", numbers) * self._duplicate.max_s
            for copy in (1, 2)
        ]
        copy_slots = self._within(slots + np.stack([self.schedule.slots(s) for s in delays_s])).T
        for place, count, row in zip(
            affected.tolist(), copies.tolist(), copy_slots.tolist(), strict=True
        ):
            yield place, row[:count]

    def _within(self, slots: Ints) -> Ints:
        """Return the slots, with those after the end of the run moved to its last one."""
        return slots if self.schedule.count is None else np.minimum(slots, self.schedule.count - 1)

    def _silent(self, numbers: Ints) -> Bools:
        """Return which events are not sent at all."""
        return none_of(numbers)

    def _affected(self, fault: EventFault, numbers: Ints) -> Bools:
        if isinstance(fault, Malformed) and not self._kinds():
            return none_of(numbers)
        return one_in_each_block(fault.share, self.seed, fault.name, numbers)[0]

    def _kinds(self) -> Sequence[MalformedKind]:
        """Return the kinds of corruption of this stream's records."""
        allowed = default_kinds(self.topic)
        if self._malformed is None or self._malformed.kinds is None:
            return allowed
        return [kind for kind in self._malformed.kinds if kind == "large" or kind in allowed]

    def _too_late_by_ms(self, numbers: Ints, flags: FaultFlags) -> Ints:
        """Return how far the fault too-late sets back the clock of each event, in milliseconds.

        Where a stream's watermark is longer than that of other streams, it is as much more.
        """
        offset_ms = np.zeros(len(numbers), dtype=np.int64)
        if self._too_late:
            affected = (flags & FaultFlag.TOO_LATE) > 0
            beyond = int(1000 * (self.watermark_s - WATERMARK_S))
            offset_ms[affected] = beyond + self._milliseconds(self._too_late, numbers[affected])
        return offset_ms

    def _with_future(self, event_ms: Ints, numbers: Ints, flags: FaultFlags) -> Ints:
        """Return the event times, with those of the fault future moved ahead of the wall clock."""
        if self._future:
            affected = (flags & FaultFlag.FUTURE) > 0
            paced, start_ms = self.schedule.paced, self.schedule.start_wall_ms
            sent = self.schedule.scheduled_ms(numbers[affected]) if paced else start_ms
            event_ms[affected] = sent + self._milliseconds(self._future, numbers[affected])
        return event_ms

    def _milliseconds(self, fault: Late | TooLate | Future, numbers: Ints) -> Ints:
        """Return by how much the fault moves each of these events, in ms of event time."""
        drawn = uniform(self.seed, f"amount of {fault.name}", numbers)
        return np.floor(1000 * (fault.min_s + (fault.max_s - fault.min_s) * drawn)).astype(np.int64)

    def _batch(
        self,
        slots: Ints,
        numbers: Ints,
        flags: FaultFlags,
        keys: Sequence[bytes],
        values: Sequence[bytes],
    ) -> Batch:
        return Batch(
            self.topic, slots, self.schedule.scheduled_s(slots), numbers, flags, keys, values
        )

    def _merged(self, batch: Batch, due: list["_Waiting"]) -> Batch:
        # The sort is stable and the slots' owners come first: moved records follow the owner.
        slots = np.concatenate([batch.slots, np.array([d[0] for d in due], dtype=np.int64)])
        order = np.argsort(slots, kind="stable")
        numbers = np.concatenate([batch.numbers, np.array([d[1] for d in due], dtype=np.int64)])
        flags = np.concatenate([batch.flags, np.array([d[3] for d in due], dtype=np.uint8)])
        keys, values = [*batch.keys, *(d[4] for d in due)], [*batch.values, *(d[5] for d in due)]
        places = order.tolist()
        return self._batch(
            slots[order],
            numbers[order],
            flags[order],
            [keys[i] for i in places],
            [values[i] for i in places],
        )


_Waiting = tuple[int, int, int, int, bytes, bytes]
"""A record for a later slot: slot, number, copy, flags, key, value; it sorts as it is sent."""


def chunk_edges(schedule: Schedule) -> Iterator[int]:
    """Yield the numbers between which a schedule's chunks lie: 0, ..., its end if it has one."""
    size = MAX_CHUNK_EVENTS
    if schedule.paced:
        size = min(size, max(1, int(schedule.rate * CHUNK_S)))
    edge = 0
    while schedule.count is None or edge < schedule.count:
        yield edge
        edge += size
    yield schedule.count


def run_name(seed: int, racks: int, start_event_ms: int, first_sequence: int) -> str:
    """Return the prefix of a run's event ids."""
    return sha256(f"{seed}|{racks}|{start_event_ms}|{first_sequence}".encode()).hexdigest()[:8]


_One = TypeVar("_One", bound=Fault)


def _find(kind: type[_One], faults: Sequence[Fault]) -> _One | None:
    return next((fault for fault in faults if isinstance(fault, kind)), None)
