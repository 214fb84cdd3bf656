"""When is each event due, and what time does its clock show? The schedule is absolute.

Event i is due i/rate seconds after the start, however late the ones before it
were; a shape bends that, the rate being its mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from events.cli import PersonError
from events.times import to_text
from producer.hashing import Floats, Ints
from producer.shape import AnyShape, Warp

MOST_PER_SECOND = 1_000_000
"""No run at the highest rate sends more events a second; it bounds how far back such a run must start."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The two clocks of a run, in epoch milliseconds: of the sender (wall) and of the world (event time)."""

    rate: float
    """Events a second; at the highest rate, the events that the world has in one second of its own."""
    paced: bool
    start_wall_ms: int
    start_event_ms: int
    time_scale: float = 1.0
    count: int | None = None
    """How many events there are; None: without end, or until the time is over."""
    warp: Warp | None = None
    """How a shape bends time; None: the rate is constant."""

    @property
    def per_event_second(self) -> float:
        """How many events there are in a second of event time."""
        return self.rate / self.time_scale

    @property
    def event_step_ms(self) -> float:
        """How much event time lies between one event and the next, in milliseconds."""
        return 1000.0 * self.time_scale / self.rate

    def part(self, share: float, count: int | None) -> "Schedule":
        """Return the schedule of one stream: a share of the rate, and `count` of the events."""
        return replace(self, rate=self.rate * share, count=count)

    def due_s(self, slots: Ints) -> Floats:
        """Return when the slots are due, in seconds after the start."""
        due: Floats = slots / self.rate
        return due if self.warp is None else self.warp.to_wall(due)

    def due_ms(self, slots: Ints) -> Ints:
        """Return when the slots are due, in epoch milliseconds."""
        after = slots * 1000.0 / self.rate if self.warp is None else self.due_s(slots) * 1000.0
        return self.start_wall_ms + np.floor(after).astype(np.int64)

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event time of events, in epoch milliseconds."""
        step_ms = self.event_step_ms
        after = numbers * step_ms if self.warp is None else self.due_s(numbers) * 1000.0 * self.time_scale
        return self.start_event_ms + np.floor(after).astype(np.int64)

    def by_then(self, since_start_ms: Ints) -> Ints:
        """Return how many events there were by so many milliseconds of event time after the start."""
        if self.warp is None:
            return np.floor(since_start_ms / self.event_step_ms).astype(np.int64)
        even_s = self.warp.to_even(since_start_ms / (1000.0 * self.time_scale))
        return np.floor(even_s * self.rate).astype(np.int64)

    def slots(self, event_seconds: Floats) -> Ints:
        """Return how many slots go by in a stretch of event time, at the mean rate."""
        return np.floor(event_seconds * self.per_event_second).astype(np.int64)


def make_schedule(
    *,
    rate: float | None,
    clock_rate: float,
    now_ms: int,
    lead_ms: int = 0,
    duration_s: float | None = None,
    count: int | None = None,
    start_event_ms: int | None = None,
    time_scale: float = 1.0,
    settling_s: float = 0.0,
    shape: AnyShape | None = None,
) -> Schedule:
    """Make the schedule of a run that starts `lead_ms` after `now_ms`; at once if `rate` is None.

    Without a rate the run goes as fast as possible, and the clocks of its world run as if `clock_rate` events
    happened in a second. The start lies so far in the past that no event time is ever ahead of the wall clock,
    and the last one at least `settling_s` behind.
    """
    paced = rate is not None
    start_ms = now_ms + lead_ms if paced else now_ms
    rate = clock_rate if rate is None else rate
    if paced and duration_s is not None:
        due = int(np.ceil(rate * duration_s))
        count = due if count is None else min(count, due)
    events = count
    if events is None and duration_s is not None:
        events = int(duration_s * MOST_PER_SECOND)
    if events is None:
        if not paced or time_scale > 1:
            raise PersonError(
                "a run faster than time itself must know its end, or its events would overtake the clock: "
                "give --count or --duration."
            )
        needed_ms = 0.0
    else:
        span_ms = events * 1000.0 / rate
        needed_ms = span_ms * time_scale - (span_ms if paced else 0)
    latest_start = start_ms - max(0, int(np.ceil(needed_ms))) - int(1000 * settling_s)
    if start_event_ms is None:
        start_event_ms = latest_start
    elif start_event_ms > latest_start:
        raise PersonError(
            f"with --start-time {to_text(start_event_ms)} events would be ahead of the clock"
            f"{f', or --flush less than {settling_s / 60:g} minutes after them' if settling_s else ''}: "
            f"start at {to_text(latest_start)} or before, or make the run shorter or slower."
        )
    if start_event_ms < 0:
        raise PersonError(
            f"the run spans {needed_ms / 86_400_000:,.0f} days of event time and would start before 1970: "
            "give a lower --count, --duration or --time-scale, or more --racks."
        )
    return Schedule(
        rate, paced, start_ms, start_event_ms, time_scale, count, _warp(shape, paced, rate, count)
    )


def _warp(shape: AnyShape | None, paced: bool, rate: float, count: int | None) -> Warp | None:
    if shape is None:
        return None
    if not paced or count is None:
        raise PersonError(
            "a shape is of a rate and of a run that ends: give a rate, and --count or --duration."
        )
    return Warp(shape, count / rate)
