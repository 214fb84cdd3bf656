"""What can go wrong? Every fault by name, with its options, their units and their bounds.

A fault hits either a share of the events of every stream (of clicks: impressions and clicks each), one in each
run of 1/share at a place that the seed draws, or some racks during episodes. A fault of a stream that the run
does not have does nothing. Seconds are seconds of event time, after the start of the run.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from events.cli import PersonError
from producer.hashing import Bools, Ints, none_of, uniform
from producer.malformed import MalformedKind
from producer.world import World

WATERMARK_S = 600.0
"""How late a record may be in event time and still has to count: the jobs' watermark of 10 minutes."""
LATEST_S = WATERMARK_S - 20
"""How late faults may make a record that has to count; what is left is for neighbours in the same batch."""
CLICKS_WATERMARK_S = 7200.0
"""The same where the only jobs are joins of impressions and clicks: the shorter watermark, of impressions."""
CLICKS_LATEST_S = CLICKS_WATERMARK_S - 20

Share = Annotated[float, Meta(gt=0, le=1)]
Seconds = Annotated[float, Meta(ge=0)]
Span = Annotated[float, Meta(gt=0)]


class Fault(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="fault"):
    """Something that goes wrong, with its options."""

    @property
    def name(self) -> str:
        """The name that options and scenario files use."""
        return str(self.__struct_config__.tag)


class OfEvents(Fault, frozen=True, kw_only=True):
    """A fault of single events, spread evenly over the run."""

    share: Share = 0.01


class OfRacks(Fault, frozen=True, kw_only=True):
    """A fault of whole racks: how many (the seed chooses them) or which, and when."""

    racks: Annotated[int, Meta(ge=1)] | list[str] = 2
    start_s: Seconds = 10.0
    length_s: Span = 30.0
    every_s: Span | None = 120.0
    stagger_s: Seconds = 0.0
    """How much later than the rack before it each further rack begins."""

    def places(self, world: World) -> Ints:
        """Return for each rack of the world its place among those the fault hits, or -1."""
        places = np.full(len(world.rack_ids), -1, dtype=np.int64)
        name = self.name
        if isinstance(self.racks, list):
            index = {rack_id: i for i, rack_id in enumerate(world.rack_ids)}
            unknown = [rack_id for rack_id in self.racks if rack_id not in index]
            if unknown:
                raise PersonError(
                    f"the fault {name} names {unknown[0]!r}, but the racks are {_range(world)}."
                )
            chosen = np.array([index[rack_id] for rack_id in self.racks], dtype=np.int64)
        elif self.racks > len(world.rack_ids):
            raise PersonError(
                f"the fault {name} wants {self.racks} racks, but there are {len(world.rack_ids)}."
            )
        else:
            lot = uniform(world.seed, f"racks of {name}", np.arange(len(world.rack_ids), dtype=np.int64))
            chosen = np.argsort(lot, kind="stable")[: self.racks]
        places[chosen] = np.arange(len(chosen))
        return places

    def active(self, places: Ints, since_start_ms: Ints) -> Bools:
        """Tell which readings the fault hits, by their rack's place and their event time after the start."""
        hit = places >= 0
        if not hit.any():
            return none_of(places)
        into = since_start_ms - np.int64(self.start_s * 1000) - places * np.int64(self.stagger_s * 1000)
        hit &= into >= 0
        if self.every_s is not None:
            into = into % np.int64(self.every_s * 1000)
        return hit & (into < self.length_s * 1000)


class Overheating(OfRacks, frozen=True, tag="overheating"):
    """Racks at or above their threshold, by up to `above_c` °C."""

    above_c: Annotated[float, Meta(ge=0, le=50)] = 6.0


class Hovering(OfRacks, frozen=True, tag="hovering"):
    """Racks within `within_c` °C of their threshold, above and below it: as many changes as can be."""

    start_s: Seconds = 0.0
    length_s: Span = 1e9
    every_s: Span | None = None
    within_c: Annotated[float, Meta(ge=0, le=10)] = 1.0


class Silence(OfRacks, frozen=True, tag="silence"):
    """Racks of which no reading arrives; the gateway still counts them, so that their numbers are missing."""


class Lossy(OfRacks, frozen=True, tag="lossy"):
    """Racks of which only the share `arriving` of the readings arrives; the gateway still counts the others."""

    arriving: Annotated[float, Meta(gt=0, lt=1)] = 0.1


class WeakSignal(OfRacks, frozen=True, tag="weak-signal"):
    """Racks whose signal strength is at most `at_most` (of 1)."""

    at_most: Annotated[float, Meta(ge=0, le=1)] = 0.15


class Late(OfEvents, frozen=True, tag="late"):
    """Events sent `min_s` to `max_s` later than they happened, within the watermark: they must count."""

    min_s: Seconds = 1.0
    max_s: Annotated[float, Meta(gt=0, le=CLICKS_LATEST_S)] = 20.0


class OutOfOrder(OfEvents, frozen=True, tag="out-of-order"):
    """Events sent after one to `places` later ones of the same rack or user; impressions, after their click."""

    places: Annotated[int, Meta(ge=1, le=1000)] = 3


class Duplicate(OfEvents, frozen=True, tag="duplicate"):
    """Events of which one to `copies` more, byte by byte the same, are sent up to `max_s` later."""

    copies: Annotated[int, Meta(ge=1, le=2)] = 2
    max_s: Annotated[float, Meta(ge=0, le=LATEST_S)] = 5.0


class TooLate(OfEvents, frozen=True, tag="too-late"):
    """Events with a clock `min_s` to `max_s` behind, past the watermark: they may count or not."""

    # Impressions are 1 h 50 min further behind and clicks 2 h 50 min, as much as their watermarks are longer.
    share: Share = 0.002
    min_s: Annotated[float, Meta(ge=WATERMARK_S + 60)] = 900.0
    max_s: Annotated[float, Meta(ge=WATERMARK_S + 60)] = 3600.0


class Future(OfEvents, frozen=True, tag="future"):
    """Events whose clock is `min_s` to `max_s` ahead of the wall clock: only rules by sequence count them."""

    share: Share = 0.002
    min_s: Annotated[float, Meta(ge=600)] = 3600.0
    max_s: Annotated[float, Meta(ge=600)] = 5 * 3600.0


class Malformed(OfEvents, frozen=True, tag="malformed"):
    """Records that no job can read, in place of an event: dead letters. The kinds take turns."""

    share: Share = 0.002
    kinds: list[MalformedKind] | None = None
    """Which kinds, of those that the stream can have; all but `large` when not given."""


class Orphan(OfEvents, frozen=True, tag="orphan"):
    """Clicks on impressions that do not exist."""


AnyFault = (
    Overheating
    | Hovering
    | Silence
    | Lossy
    | WeakSignal
    | Late
    | OutOfOrder
    | Duplicate
    | TooLate
    | Future
    | Malformed
    | Orphan
)
BY_NAME: dict[str, type[Fault]] = {
    str(fault.__struct_config__.tag): fault
    for fault in (
        Overheating, Late, TooLate, OutOfOrder, Duplicate, Malformed, Future, Silence, Lossy, WeakSignal, Hovering,
        Orphan,
    )
}  # fmt: skip


def check_together(faults: Sequence[AnyFault], streams: Sequence[str] = ("racks",)) -> None:
    """Raise `PersonError` where faults exclude each other, or add up to more lateness than must count."""
    names = [fault.name for fault in faults]
    for name in names:
        if names.count(name) > 1 and not issubclass(BY_NAME[name], OfRacks):
            raise PersonError(f"the fault {name} is given twice: give it once, with its options together.")
    for fault in faults:
        if isinstance(fault, Late | TooLate | Future) and fault.min_s > fault.max_s:
            raise PersonError(
                f"the fault {fault.name} has min_s {fault.min_s:g} above max_s {fault.max_s:g}."
            )
    latest = sum(fault.max_s for fault in faults if isinstance(fault, Late | Duplicate))
    only_clicks = set(streams) == {"clicks"}
    watermark, bound = (CLICKS_WATERMARK_S, CLICKS_LATEST_S) if only_clicks else (WATERMARK_S, LATEST_S)
    if latest > bound:
        raise PersonError(
            f"a duplicate of a late event could arrive {latest:g} s late, but must count within "
            f"{watermark:g} s: let max_s of late and of duplicate add up to at most {bound:g}."
        )


def _range(world: World) -> str:
    return f"{world.rack_ids[0]} to {world.rack_ids[-1]}"
