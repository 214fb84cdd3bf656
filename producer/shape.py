"""How does a rate change while it runs? Shapes by name; the rate of the run stays the mean.

A shape says how heavy each moment is. Of that follows the warp: when, on the wall clock, a run has done as much as one
of a constant rate does in so many seconds. What is drawn, and in which order, is the same with every shape.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from producer.hashing import Floats

Share = Annotated[float, Meta(ge=0, le=1000)]
Seconds = Annotated[float, Meta(gt=0)]
STEPS = 2000
"""Into how many pieces of a constant rate a curve is cut."""


class Shape(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="shape"):
    """How the load is spread over the time; `weights` are relative to each other."""

    def edges(self, duration_s: float) -> Floats:
        """Return the moments (s) between which the rate is constant, the start and the end among them."""
        return np.linspace(0, duration_s, STEPS + 1)

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:
        """Return how heavy each piece is, by its middle."""
        raise NotImplementedError


class Ramp(Shape, frozen=True, tag="ramp"):
    """From one share of the mean rate evenly to another."""

    begin: Share = 0.1
    end: Annotated[float, Meta(gt=0, le=1000)] = 1.9

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:
        """Grow, or fall, along a line."""
        return self.begin + (self.end - self.begin) * middle_s / duration_s


class Burst(Shape, frozen=True, tag="burst"):
    """`times` the usual rate for `length_s`, again every `every_s`, the first after `start_s`."""

    times: Annotated[float, Meta(gt=0, le=1000)] = 5.0
    start_s: Annotated[float, Meta(ge=0)] = 0.0
    length_s: Seconds = 1.0
    every_s: Seconds | None = 10.0

    def edges(self, duration_s: float) -> Floats:
        """Have an edge at each beginning and end of a burst."""
        every_s = self.every_s or duration_s
        begins = np.arange(self.start_s, duration_s, every_s) if self.every_s else np.array([self.start_s])
        inner = np.concatenate([begins, begins + min(self.length_s, every_s)])
        return np.unique(np.concatenate([[0.0, duration_s], inner[(inner > 0) & (inner < duration_s)]]))

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:  # noqa: ARG002 - bursts come by the clock
        """Be heavy within a burst."""
        since = middle_s - self.start_s
        within = since if self.every_s is None else since % self.every_s
        return np.where((since >= 0) & (within < self.length_s), self.times, 1.0)


class SingleBurst(Burst, frozen=True, tag="single-burst"):
    """One burst of five minutes, after a minute."""

    start_s: Annotated[float, Meta(ge=0)] = 60.0
    length_s: Seconds = 300.0
    every_s: Seconds | None = None


class Daily(Shape, frozen=True, tag="daily"):
    """Days of `day_s` seconds: lowest at night, where each begins, `swing` above and below the mean."""

    day_s: Seconds = 240.0
    swing: Annotated[float, Meta(ge=0, lt=1)] = 0.8

    def weights(self, middle_s: Floats, duration_s: float) -> Floats:  # noqa: ARG002 - a day is a day
        """Go up and down as a cosine."""
        return 1 - self.swing * np.cos(2 * np.pi * middle_s / self.day_s)


AnyShape = Ramp | Burst | SingleBurst | Daily


class Warp:
    """The wall clock's seconds for the seconds that a constant rate would take, and back; beyond the end they agree."""

    def __init__(self, shape: AnyShape, duration_s: float) -> None:
        edges = shape.edges(duration_s)
        done = np.concatenate(
            [[0.0], np.cumsum(shape.weights((edges[1:] + edges[:-1]) / 2, duration_s) * np.diff(edges))]
        )
        self._wall_s, self._even_s, self._end_s = edges, done * (duration_s / done[-1]), duration_s

    def to_wall(self, even_s: Floats) -> Floats:
        """Return when, in seconds after the start, as much is done as a constant rate does in `even_s`."""
        return np.where(even_s > self._end_s, even_s, np.interp(even_s, self._even_s, self._wall_s))

    def to_even(self, wall_s: Floats) -> Floats:
        """Return in how many seconds a constant rate does what is done by then."""
        return np.where(wall_s > self._end_s, wall_s, np.interp(wall_s, self._wall_s, self._even_s))
