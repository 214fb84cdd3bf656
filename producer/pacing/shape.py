"""Shape how a rate changes during a run; the rate of the run stays the mean.

A shape gives each moment a weight. The `TimeWarp` follows from the weights: it maps the wall clock
to the time that a constant rate takes to send as much. The events and their order are the same
with every shape.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from producer.hashing import Floats

Share = Annotated[float, Meta(ge=0, le=1000)]
Seconds = Annotated[float, Meta(gt=0)]
STEPS = 2000
"""How many pieces of a constant rate approximate a curve."""


class Shape(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="shape"):
    """The distribution of the load over time; `weights` are relative to each other."""

    def edges(self, duration_s: float) -> Floats:
        """Return the moments (s) between which the rate is constant, start and end included."""
        return np.linspace(0, duration_s, STEPS + 1)

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:
        """Return the weight of each piece, by its middle."""
        raise NotImplementedError


class Ramp(Shape, frozen=True, tag="ramp"):
    """A linear change from one share of the mean rate to another."""

    begin: Share = 0.1
    end: Annotated[float, Meta(gt=0, le=1000)] = 1.9

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:
        """Change along a line."""
        return self.begin + (self.end - self.begin) * middle_s / duration_s


class Burst(Shape, frozen=True, tag="burst"):
    """`times` the base rate for `length_s`, every `every_s`; the first burst after `start_s`."""

    times: Annotated[float, Meta(gt=0, le=1000)] = 5.0
    start_s: Annotated[float, Meta(ge=0)] = 0.0
    length_s: Seconds = 1.0
    every_s: Seconds | None = 10.0

    def edges(self, duration_s: float) -> Floats:
        """Put an edge at the beginning and the end of each burst."""
        every_s = self.every_s or duration_s
        begins = (
            np.arange(self.start_s, duration_s, every_s)
            if self.every_s
            else np.array([self.start_s])
        )
        inner = np.concatenate([begins, begins + min(self.length_s, every_s)])
        return np.unique(
            np.concatenate([[0.0, duration_s], inner[(inner > 0) & (inner < duration_s)]])
        )

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:  # noqa: ARG002 - bursts come by the clock
        """Give the pieces of a burst the weight `times`."""
        since = middle_s - self.start_s
        within = since if self.every_s is None else since % self.every_s
        return np.where((since >= 0) & (within < self.length_s), self.times, 1.0)


class SingleBurst(Burst, frozen=True, tag="single-burst"):
    """One burst of five minutes, after a minute."""

    start_s: Annotated[float, Meta(ge=0)] = 60.0
    length_s: Seconds = 300.0
    every_s: Seconds | None = None


class Daily(Shape, frozen=True, tag="daily"):
    """Days of `day_s` seconds: lowest when each begins, `swing` above and below the mean."""

    day_s: Seconds = 240.0
    swing: Annotated[float, Meta(ge=0, lt=1)] = 0.8

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:  # noqa: ARG002 - a day is a day
        """Follow a cosine."""
        return 1 - self.swing * np.cos(2 * np.pi * middle_s / self.day_s)


AnyShape = Ramp | Burst | SingleBurst | Daily


class TimeWarp:
    """The map between wall-clock seconds and the seconds that a constant rate would take.

    Beyond the end of the run both are the same.
    """

    def __init__(self, shape: AnyShape, duration_s: float) -> None:
        edges = shape.edges(duration_s)
        done = np.concatenate(
            [
                [0.0],
                np.cumsum(shape.weights((edges[1:] + edges[:-1]) / 2, duration_s) * np.diff(edges)),
            ]
        )
        self._wall_s, self._constant_rate_s, self._end_s = (
            edges,
            done * (duration_s / done[-1]),
            duration_s,
        )

    def to_wall(self, constant_rate_s: Floats) -> Floats:
        """Return when, in seconds, as much is sent as a constant rate sends in the given time."""
        return np.where(
            constant_rate_s > self._end_s,
            constant_rate_s,
            np.interp(constant_rate_s, self._constant_rate_s, self._wall_s),
        )

    def to_constant_rate(self, wall_s: Floats) -> Floats:
        """Return how many seconds a constant rate needs for what is sent by the given time."""
        return np.where(
            wall_s > self._end_s, wall_s, np.interp(wall_s, self._wall_s, self._constant_rate_s)
        )
