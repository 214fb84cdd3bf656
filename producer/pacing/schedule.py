"""Compute when each event is due, and its event time.

The schedule is absolute: event i is due i/rate seconds after the start, however late the events
before it were. A shape changes the rate over time and keeps its mean.
"""

from dataclasses import dataclass, replace

import numpy as np

from events.cli import UserFacingError
from events.times import to_text
from producer.hashing import Floats, Ints
from producer.pacing.shape import AnyShape, TimeWarp

MAX_EVENTS_PER_SECOND = 1_000_000
"""No unpaced run sends more events per second; it bounds how far back such a run must start."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The two clocks of a run, in epoch milliseconds: wall clock of the sender and event time."""

    rate: float
    """Events per second; of an unpaced run, the events in an unscaled second of event time."""
    paced: bool
    start_wall_ms: int
    start_event_ms: int
    time_scale: float = 1.0
    count: int | None = None
    """How many events there are; None: until the run is stopped or its duration is over."""
    time_warp: TimeWarp | None = None
    """The effect of a shape on time; None: the rate is constant."""

    @property
    def event_time_rate(self) -> float:
        """The number of events in a second of event time."""
        return self.rate / self.time_scale

    @property
    def event_step_ms(self) -> float:
        """The event time between one event and the next, in milliseconds."""
        return 1000.0 * self.time_scale / self.rate

    def part(self, share: float, count: int | None) -> "Schedule":
        """Return the schedule of one stream: a share of the rate, and `count` of the events."""
        return replace(self, rate=self.rate * share, count=count)

    def scheduled_s(self, slots: Ints) -> Floats:
        """Return when the slots are due, in seconds after the start."""
        due: Floats = slots / self.rate
        return due if self.time_warp is None else self.time_warp.to_wall(due)

    def scheduled_ms(self, slots: Ints) -> Ints:
        """Return when the slots are due, in epoch milliseconds."""
        after = (
            slots * 1000.0 / self.rate
            if self.time_warp is None
            else self.scheduled_s(slots) * 1000.0
        )
        return self.start_wall_ms + np.floor(after).astype(np.int64)

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event time of events, in epoch milliseconds."""
        step_ms = self.event_step_ms
        after = (
            numbers * step_ms
            if self.time_warp is None
            else self.scheduled_s(numbers) * 1000.0 * self.time_scale
        )
        return self.start_event_ms + np.floor(after).astype(np.int64)

    def events_by(self, since_start_ms: Ints) -> Ints:
        """Return how many events there are in the first milliseconds of event time."""
        if self.time_warp is None:
            return np.floor(since_start_ms / self.event_step_ms).astype(np.int64)
        constant_rate_s = self.time_warp.to_constant_rate(
            since_start_ms / (1000.0 * self.time_scale)
        )
        return np.floor(constant_rate_s * self.rate).astype(np.int64)

    def slots(self, event_seconds: Floats) -> Ints:
        """Return how many slots a span of event time has at the mean rate."""
        return np.floor(event_seconds * self.event_time_rate).astype(np.int64)


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
    flush_delay_s: float = 0.0,
    shape: AnyShape | None = None,
) -> Schedule:
    """Make the schedule of a run that starts `lead_ms` after `now_ms`; unpaced if `rate` is None.

    An unpaced run goes as fast as possible, and `clock_rate` of its events make a second of event
    time. The start lies so far in the past that no event time is ever ahead of the wall clock, and
    the last one is at least `flush_delay_s` behind it.
    """
    paced = rate is not None
    start_ms = now_ms + lead_ms if paced else now_ms
    rate = clock_rate if rate is None else rate
    if paced and duration_s is not None:
        due = int(np.ceil(rate * duration_s))
        count = due if count is None else min(count, due)
    events = count
    if events is None and duration_s is not None:
        events = int(duration_s * MAX_EVENTS_PER_SECOND)
    if events is None:
        if not paced or time_scale > 1:
            raise UserFacingError(
                "a run in which event time is faster than the clock must end, or its events would "
                "lie in the future: add --count or --duration."
            )
        needed_ms = 0.0
    else:
        span_ms = events * 1000.0 / rate
        needed_ms = span_ms * time_scale - (span_ms if paced else 0)
    latest_start = start_ms - max(0, int(np.ceil(needed_ms))) - int(1000 * flush_delay_s)
    if start_event_ms is None:
        start_event_ms = latest_start
    elif start_event_ms > latest_start:
        minutes = flush_delay_s / 60
        flush = f", or less than {minutes:g} minutes before --flush" if flush_delay_s else ""
        raise UserFacingError(
            f"with --start-time {to_text(start_event_ms)} events would be ahead of the clock"
            f"{flush}: start at {to_text(latest_start)} or before, "
            "or make the run shorter or slower."
        )
    if start_event_ms < 0:
        raise UserFacingError(
            f"the run spans {needed_ms / 86_400_000:,.0f} days of event time and would start "
            "before 1970: give a lower --count, --duration or --time-scale, or more --racks."
        )
    return Schedule(
        rate,
        paced,
        start_ms,
        start_event_ms,
        time_scale,
        count,
        _time_warp(shape, paced, rate, count),
    )


def _time_warp(
    shape: AnyShape | None, paced: bool, rate: float, count: int | None
) -> TimeWarp | None:
    if shape is None:
        return None
    if not paced or count is None:
        raise UserFacingError(
            "a shape needs a rate and an end: give a rate, and --count or --duration."
        )
    return TimeWarp(shape, count / rate)
