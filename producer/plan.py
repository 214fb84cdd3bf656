"""What is sent, in which order? Readings and faults make the records of each stretch of the schedule.

A reading has a number; the schedule has a slot for each. A reading is sent in the slot of its own number,
unless a fault moves it to a later one; copies take a later slot beside its owner. All of it is a function of
(seed, number).
"""

import heapq
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from enum import IntFlag
from hashlib import sha256
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from events.records import RackReading
from producer.encoding import Encoder
from producer.faults import (
    AnyFault,
    Duplicate,
    Fault,
    Future,
    Hovering,
    Late,
    Malformed,
    OfRacks,
    OfReadings,
    OutOfOrder,
    Overheating,
    Silence,
    TooLate,
    WeakSignal,
)
from producer.hashing import Bools, Ints, none_of, one_in_each_block, uniform
from producer.malformed import USUAL_KINDS, MalformedKind, spoil
from producer.readings import Readings, draw, to_records
from producer.schedule import Schedule
from producer.world import World

LARGEST_STRETCH = 16_384
"""Readings drawn and encoded at once: enough to spread fixed costs, few enough to stay in the cache."""
STRETCH_S = 0.25
"""How much of a slow schedule is drawn at once, in seconds."""


class Mark(IntFlag):
    """What a fault did to a record."""

    COPY = 1
    OUT_OF_ORDER = 2
    LATE = 4
    TOO_LATE = 8
    FUTURE = 16
    MALFORMED = 32


Marks = NDArray[np.uint8]


@dataclass(slots=True, eq=False)
class Batch:
    """Encoded records in the order of sending, with their slot, their reading's number and marks."""

    slots: Ints
    numbers: Ints
    marks: Marks
    keys: Sequence[bytes]
    values: Sequence[bytes]


class Plan:
    """The records of one run."""

    def __init__(
        self, world: World, schedule: Schedule, faults: Sequence[AnyFault], first_sequence: int
    ) -> None:
        self.world = world
        self.schedule = schedule
        self.first_sequence = first_sequence
        self._encoder = Encoder(world)
        self._by_rack = [(fault, fault.places(world)) for fault in faults if isinstance(fault, OfRacks)]
        self._late = _only(Late, faults)
        self._too_late = _only(TooLate, faults)
        self._out_of_order = _only(OutOfOrder, faults)
        self._duplicate = _only(Duplicate, faults)
        self._malformed = _only(Malformed, faults)
        self._future = _only(Future, faults)

    def starting(self, schedule: Schedule, first_sequence: int) -> "Plan":
        """Return the same plan at another time."""
        plan = copy(self)
        plan.schedule, plan.first_sequence = schedule, first_sequence
        return plan

    @property
    def run_id(self) -> str:
        """What the ids of this run's events begin with: two runs have no event in common."""
        world, start_ms = self.world, self.schedule.start_event_ms
        name = f"{world.seed}|{len(world.rack_ids)}|{start_ms}|{self.first_sequence}"
        return sha256(name.encode()).hexdigest()[:8]

    def readings(self, numbers: Ints) -> Readings:
        """Draw the readings with these numbers, with the faults that change what they say."""
        readings = draw(self.world, self.schedule, self.first_sequence, numbers)
        since_start = readings.event_ms - self.schedule.start_event_ms
        for fault, places in self._by_rack:
            hit = fault.active(places[readings.racks], since_start)
            if hit.any():
                self._change(readings, fault, hit)
        marks = self.marks(numbers)
        if self._too_late:
            hit = (marks & Mark.TOO_LATE) > 0
            readings.event_ms[hit] -= self._milliseconds(self._too_late, numbers[hit])
        if self._future:
            hit = (marks & Mark.FUTURE) > 0
            sent = self.schedule.due_ms(numbers[hit]) if self.schedule.paced else self.schedule.start_wall_ms
            readings.event_ms[hit] = sent + self._milliseconds(self._future, numbers[hit])
        return readings

    def marks(self, numbers: Ints) -> Marks:
        """Tell what the faults do to the readings with these numbers (no reading is called a copy)."""
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

    def records(self, numbers: Ints) -> list[RackReading]:
        """Return the readings with these numbers as records, without their scheduled time."""
        return to_records(self.world, self.run_id, self.readings(numbers))

    def malformed_kinds(self, numbers: Ints) -> list[MalformedKind]:
        """Return in which way each of these readings is spoiled, given that it is."""
        if self._malformed is None:
            return []
        kinds = USUAL_KINDS if self._malformed.kinds is None else self._malformed.kinds
        _, blocks = one_in_each_block(self._malformed.share, self.world.seed, "malformed", numbers)
        return [kinds[block % len(kinds)] for block in blocks.tolist()]

    def values(self, numbers: Ints) -> list[bytes]:
        """Return the values of these readings' records, spoiled where they are malformed."""
        return self._values(self.readings(numbers), self.marks(numbers))

    def batches(self) -> Iterator[Batch]:
        """Draw and encode the records, a stretch of the schedule at a time."""
        size = LARGEST_STRETCH
        if self.schedule.paced:
            size = min(size, max(1, int(self.schedule.rate * STRETCH_S)))
        waiting: list[_Waiting] = []
        start = 0
        while self.schedule.count is None or start < self.schedule.count:
            stop = start + size if self.schedule.count is None else min(start + size, self.schedule.count)
            batch, moved = self._drawn(np.arange(start, stop, dtype=np.int64))
            for record in moved:
                heapq.heappush(waiting, record)
            due = []
            while waiting and waiting[0][0] < stop:
                due.append(heapq.heappop(waiting))
            if batch.values or due:
                yield _merged(batch, due) if due else batch
            start = stop

    def _drawn(self, numbers: Ints) -> tuple[Batch, list["_Waiting"]]:
        """Return what is sent in its own slot, and what is sent in a later one."""
        numbers = numbers[~self._silent(numbers)]
        readings = self.readings(numbers)
        marks = self.marks(numbers)
        slots = self._slots(numbers, marks)
        values = self._values(readings, marks)
        keys = self._encoder.keys(readings.racks)
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
        return Batch(slots, numbers, marks, keys, values), moved

    def _values(self, readings: Readings, marks: Marks) -> list[bytes]:
        numbers = readings.numbers
        scheduled_ms = self.schedule.due_ms(self._slots(numbers, marks)) if self.schedule.paced else None
        values = self._encoder.values(self.run_id, readings, scheduled_ms)
        bad = np.flatnonzero(marks & Mark.MALFORMED)
        if len(bad):
            spoiled = zip(self.records(numbers[bad]), self.malformed_kinds(numbers[bad]), strict=True)
            for place, (record, kind) in zip(bad.tolist(), spoiled, strict=True):
                values[place] = spoil(record, kind)
        return values

    def _slots(self, numbers: Ints, marks: Marks) -> Ints:
        """Return the slot in which each reading is first sent."""
        slots = numbers.copy()
        if self._out_of_order:
            hit = (marks & Mark.OUT_OF_ORDER) > 0
            lot = uniform(self.world.seed, "places", numbers[hit])
            overtaking = 1 + (lot * self._out_of_order.places).astype(np.int64)
            slots[hit] += overtaking * len(self.world.rack_ids) + 1
        if self._late:
            hit = (marks & Mark.LATE) > 0
            delays = self.schedule.slots(self._milliseconds(self._late, numbers[hit]) / 1000)
            slots[hit] = numbers[hit] + np.maximum(1, delays)
        return self._within(slots)

    def _copies(self, numbers: Ints, slots: Ints) -> Iterator[tuple[int, list[int]]]:
        """Return the place of each reading that is sent again, and in which slots."""
        if not self._duplicate:
            return
        hit = np.flatnonzero(self._hit(self._duplicate, numbers))
        numbers, slots, seed = numbers[hit], slots[hit], self.world.seed
        copies = 1 + (uniform(seed, "copies", numbers) * self._duplicate.copies).astype(np.int64)
        seconds = [uniform(seed, f"delay of copy {copy}", numbers) * self._duplicate.max_s for copy in (1, 2)]
        copy_slots = self._within(slots + np.stack([self.schedule.slots(s) for s in seconds])).T
        for place, count, row in zip(hit.tolist(), copies.tolist(), copy_slots.tolist(), strict=True):
            yield place, row[:count]

    def _within(self, slots: Ints) -> Ints:
        """Return the slots, with those after the end of the run moved to its last."""
        return slots if self.schedule.count is None else np.minimum(slots, self.schedule.count - 1)

    def _silent(self, numbers: Ints) -> Bools:
        silent = none_of(numbers)
        for fault, places in self._by_rack:
            if isinstance(fault, Silence):
                since_start = self.schedule.event_ms(numbers) - self.schedule.start_event_ms
                silent |= fault.active(places[numbers % len(self.world.rack_ids)], since_start)
        return silent

    def _change(self, readings: Readings, fault: OfRacks, hit: Bools) -> None:
        lot = uniform(self.world.seed, f"level of {fault.name}", readings.numbers[hit])
        threshold = self.world.threshold[readings.racks[hit]]
        if isinstance(fault, Overheating):
            readings.temperature[hit] = threshold + np.rint(lot * fault.above_c * 100).astype(np.int64)
        elif isinstance(fault, Hovering):
            readings.temperature[hit] = threshold + np.rint((2 * lot - 1) * fault.within_c * 100).astype(
                np.int64
            )
        elif isinstance(fault, WeakSignal):
            readings.signal[hit] = np.floor(lot * fault.at_most * 1000).astype(np.int64)

    def _hit(self, fault: OfReadings, numbers: Ints) -> Bools:
        return one_in_each_block(fault.share, self.world.seed, fault.name, numbers)[0]

    def _milliseconds(self, fault: Late | TooLate | Future, numbers: Ints) -> Ints:
        """Return by how much the fault moves each of these readings, in milliseconds of event time."""
        lot = uniform(self.world.seed, f"amount of {fault.name}", numbers)
        return np.floor(1000 * (fault.min_s + (fault.max_s - fault.min_s) * lot)).astype(np.int64)


_Waiting = tuple[int, int, int, int, bytes, bytes]
"""A record for a later slot: slot, number, copy, marks, key, value. It sorts in the order of sending."""


_One = TypeVar("_One", bound=Fault)


def _only(kind: type[_One], faults: Sequence[Fault]) -> _One | None:
    return next((fault for fault in faults if isinstance(fault, kind)), None)


def _merged(batch: Batch, due: list[_Waiting]) -> Batch:
    # A stable sort, with the slots' owners first: whoever was moved into a slot is sent after its owner.
    slots = np.concatenate([batch.slots, np.array([d[0] for d in due], dtype=np.int64)])
    order = np.argsort(slots, kind="stable")
    numbers = np.concatenate([batch.numbers, np.array([d[1] for d in due], dtype=np.int64)])
    marks = np.concatenate([batch.marks, np.array([d[3] for d in due], dtype=np.uint8)])
    keys, values = [*batch.keys, *(d[4] for d in due)], [*batch.values, *(d[5] for d in due)]
    places = order.tolist()
    return Batch(
        slots[order], numbers[order], marks[order], [keys[i] for i in places], [values[i] for i in places]
    )
