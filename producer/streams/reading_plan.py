"""Draw the readings of a run, with the faults that change or suppress them."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from events.records import RackReading
from events.times import to_text
from events.topics import RACK_READINGS
from producer.faults import AnyFault, Hovering, Lossy, Overheating, RackFault, Silence, WeakSignal
from producer.hashing import Bools, Ints, none_of, uniform
from producer.pacing.schedule import Schedule
from producer.streams.readings import Encoder, Readings, draw_readings, to_records
from producer.streams.stream_plan import FLUSH_SUBJECT, StreamPlan, run_name
from producer.world.racks import World


class ReadingPlan(StreamPlan):
    """The readings of one run."""

    topic = RACK_READINGS

    def __init__(
        self, world: World, schedule: Schedule, faults: Sequence[AnyFault], first_sequence: int
    ) -> None:
        super().__init__(world.seed, schedule, faults)
        self.world = world
        self.first_sequence = first_sequence
        self._encoder = Encoder(world)
        self._by_rack = [
            (fault, fault.places(world)) for fault in faults if isinstance(fault, RackFault)
        ]

    def with_start(self, schedule: Schedule, first_sequence: int) -> "ReadingPlan":
        """Return the same plan with another start."""
        plan = copy(self)
        plan.schedule, plan.first_sequence = schedule, first_sequence
        return plan

    @property
    def run_id(self) -> str:
        """The prefix of this run's event ids."""
        world, start_ms = self.world, self.schedule.start_event_ms
        return run_name(world.seed, len(world.rack_ids), start_ms, self.first_sequence)

    @property
    def subjects(self) -> int:
        """The number of racks, which take turns."""
        return len(self.world.rack_ids)

    def readings(self, numbers: Ints) -> Readings:
        """Draw the readings with these numbers, with the faults that change them."""
        readings = draw_readings(self.world, self.schedule, self.first_sequence, numbers)
        since_start = readings.event_ms - self.schedule.start_event_ms
        for fault, places in self._by_rack:
            affected = fault.active(places[readings.racks], since_start)
            if affected.any():
                self._change(readings, fault, affected)
        flags = self.flags(numbers)
        readings.event_ms -= self._too_late_by_ms(numbers, flags)
        readings.event_ms = self._with_future(readings.event_ms, numbers, flags)
        return readings

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times in the readings, in epoch milliseconds."""
        return self.readings(numbers).event_ms

    def records(self, numbers: Ints) -> list[RackReading]:
        """Return the readings with these numbers as records, without their scheduled time."""
        return to_records(self.world, self.run_id, self.readings(numbers))

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the readings with these numbers."""
        readings = self.readings(numbers)
        return self._encoder.keys(readings.racks), self._encoder.values(
            self.run_id, readings, scheduled_ms
        )

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
                affected = fault.active(places[numbers % len(self.world.rack_ids)], since_start)
                if isinstance(fault, Lossy):
                    # The text only seeds the draw; another one would change what a seed gives.
                    drawn = uniform(self.world.seed, f"lot of {fault.name}", numbers)
                    affected &= drawn >= fault.arriving
                silent |= affected
        return silent

    def _change(self, readings: Readings, fault: RackFault, affected: Bools) -> None:
        drawn = uniform(self.world.seed, f"level of {fault.name}", readings.numbers[affected])
        threshold = self.world.threshold[readings.racks[affected]]
        if isinstance(fault, Overheating):
            readings.temperature[affected] = threshold + np.rint(
                drawn * fault.above_c * 100
            ).astype(np.int64)
        elif isinstance(fault, Hovering):
            readings.temperature[affected] = threshold + np.rint(
                (2 * drawn - 1) * fault.within_c * 100
            ).astype(np.int64)
        elif isinstance(fault, WeakSignal):
            readings.signal[affected] = np.floor(drawn * fault.at_most * 1000).astype(np.int64)
