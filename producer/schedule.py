"""When is each reading due, and what time does its clock show? The schedule is absolute.

Reading i is due i/rate seconds after the start, however late the ones before it
were.
"""

from dataclasses import dataclass

import numpy as np

from events.cli import PersonError
from events.times import to_text
from producer.hashing import Floats, Ints

MOST_PER_SECOND = 1_000_000
"""No run at the highest rate sends more readings a second; it bounds how far back such a run must start."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The two clocks of a run, in epoch milliseconds: of the sender (wall) and of the racks (event time)."""

    rate: float
    """Readings a second; at the highest rate, the readings that all racks take in one second of theirs."""
    paced: bool
    start_wall_ms: int
    start_event_ms: int
    time_scale: float = 1.0
    count: int | None = None
    """How many readings there are; None: without end, or until the time is over."""

    @property
    def readings_per_event_second(self) -> float:
        """How many readings all racks together take in a second of event time."""
        return self.rate / self.time_scale

    def due_s(self, slots: Ints) -> Floats:
        """Return when the slots are due, in seconds after the start."""
        due: Floats = slots / self.rate
        return due

    def due_ms(self, slots: Ints) -> Ints:
        """Return when the slots are due, in epoch milliseconds."""
        after: Ints = np.floor(slots * 1000.0 / self.rate).astype(np.int64)
        return self.start_wall_ms + after

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event time of readings, in epoch milliseconds."""
        per_reading_ms = 1000.0 * self.time_scale / self.rate
        after: Ints = np.floor(numbers * per_reading_ms).astype(np.int64)
        return self.start_event_ms + after

    def slots(self, event_seconds: Floats) -> Ints:
        """Return how many slots go by in a stretch of event time."""
        return np.floor(event_seconds * self.readings_per_event_second).astype(np.int64)


def make_schedule(
    *,
    rate: float | None,
    racks: int,
    now_ms: int,
    lead_ms: int = 0,
    duration_s: float | None = None,
    count: int | None = None,
    start_event_ms: int | None = None,
    time_scale: float = 1.0,
) -> Schedule:
    """Make the schedule of a run that starts `lead_ms` after `now_ms`; at once if `rate` is None.

    Without a rate the run goes as fast as possible, and the racks' clocks run as if each took one reading a
    second. The start lies so far in the past that no event time is ever ahead of the wall clock.
    """
    paced = rate is not None
    start_ms = now_ms + lead_ms if paced else now_ms
    rate = float(racks) if rate is None else rate
    if paced and duration_s is not None:
        due = int(np.ceil(rate * duration_s))
        count = due if count is None else min(count, due)
    readings = count
    if readings is None and duration_s is not None:
        readings = int(duration_s * MOST_PER_SECOND)
    if readings is None:
        if not paced or time_scale > 1:
            raise PersonError(
                "a run faster than time itself must know its end, or its events would overtake the clock: "
                "give --count or --duration."
            )
        needed_ms = 0.0
    else:
        span_ms = readings * 1000.0 / rate
        needed_ms = span_ms * time_scale - (span_ms if paced else 0)
    latest_start = start_ms - max(0, int(np.ceil(needed_ms)))
    if start_event_ms is None:
        start_event_ms = latest_start
    elif start_event_ms > latest_start:
        raise PersonError(
            f"with --start-time {to_text(start_event_ms)} events would be ahead of the clock: "
            f"start at {to_text(latest_start)} or before, or make the run shorter or slower."
        )
    if start_event_ms < 0:
        raise PersonError(
            f"the run spans {needed_ms / 86_400_000:,.0f} days of event time and would start before 1970: "
            "give more --racks, or a lower --count, --duration or --time-scale."
        )
    return Schedule(rate, paced, start_ms, start_event_ms, time_scale, count)
