"""What do the racks send? Readings, with the faults that change what they say or keep racks silent."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from events.records import RackReading
from events.times import to_text
from events.topics import RACK_READINGS
from producer.encoding import Encoder
from producer.faults import AnyFault, Hovering, Lossy, OfRacks, Overheating, Silence, WeakSignal
from producer.hashing import Bools, Ints, none_of, uniform
from producer.readings import Readings, draw, to_records
from producer.schedule import Schedule
from producer.stream import FLUSH_SUBJECT, Batch, Mark, StreamPlan, run_name
from producer.world import World

__all__ = ["Batch", "Mark", "Plan"]


class Plan(StreamPlan):
    """The readings of one run."""

    topic = RACK_READINGS

    def __init__(
        self, world: World, schedule: Schedule, faults: Sequence[AnyFault], first_sequence: int
    ) -> None:
        super().__init__(world.seed, schedule, faults)
        self.world = world
        self.first_sequence = first_sequence
        self._encoder = Encoder(world)
        self._by_rack = [(fault, fault.places(world)) for fault in faults if isinstance(fault, OfRacks)]

    def starting(self, schedule: Schedule, first_sequence: int) -> "Plan":
        """Return the same plan at another time."""
        plan = copy(self)
        plan.schedule, plan.first_sequence = schedule, first_sequence
        return plan

    @property
    def run_id(self) -> str:
        """What the ids of this run's events begin with."""
        world, start_ms = self.world, self.schedule.start_event_ms
        return run_name(world.seed, len(world.rack_ids), start_ms, self.first_sequence)

    @property
    def subjects(self) -> int:
        """How many racks take turns."""
        return len(self.world.rack_ids)

    def readings(self, numbers: Ints) -> Readings:
        """Draw the readings with these numbers, with the faults that change what they say."""
        readings = draw(self.world, self.schedule, self.first_sequence, numbers)
        since_start = readings.event_ms - self.schedule.start_event_ms
        for fault, places in self._by_rack:
            hit = fault.active(places[readings.racks], since_start)
            if hit.any():
                self._change(readings, fault, hit)
        marks = self.marks(numbers)
        readings.event_ms -= self._behind_ms(numbers, marks)
        readings.event_ms = self._put_ahead(readings.event_ms, numbers, marks)
        return readings

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times that the readings tell, in epoch milliseconds."""
        return self.readings(numbers).event_ms

    def records(self, numbers: Ints) -> list[RackReading]:
        """Return the readings with these numbers as records, without their scheduled time."""
        return to_records(self.world, self.run_id, self.readings(numbers))

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the readings with these numbers."""
        readings = self.readings(numbers)
        return self._encoder.keys(readings.racks), self._encoder.values(self.run_id, readings, scheduled_ms)

    def flush_record(self, event_ms: int) -> tuple[str, RackReading]:
        """Return a reading of a cold rack that is in no inventory."""
        return FLUSH_SUBJECT, RackReading(
            event_id=f"{self.run_id}-flush",
            event_time=to_text(event_ms),
            rack_id=FLUSH_SUBJECT,
            sequence=self.first_sequence,
            site_id=FLUSH_SUBJECT,
            device_type=FLUSH_SUBJECT,
            temperature_c=20.0,
            signal_strength=1.0,
        )

    def _silent(self, numbers: Ints) -> Bools:
        silent = none_of(numbers)
        for fault, places in self._by_rack:
            if isinstance(fault, Silence | Lossy):
                since_start = self.schedule.event_ms(numbers) - self.schedule.start_event_ms
                hit = fault.active(places[numbers % len(self.world.rack_ids)], since_start)
                if isinstance(fault, Lossy):
                    hit &= uniform(self.world.seed, f"lot of {fault.name}", numbers) >= fault.arriving
                silent |= hit
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
