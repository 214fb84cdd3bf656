"""Define every fault by name, with its options, their units and their bounds.

A fault affects either a share of the events of every stream (one event in each block of 1/share,
at a place that the seed draws), or some racks during episodes. The clicks stream has two topics,
impressions and clicks, and each gets the share. A fault of a stream that the run does not have
does nothing. Seconds are seconds of event time after the start of the run.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from events.cli import UserFacingError
from events.constants import IMPRESSIONS_WATERMARK, WATERMARK
from producer.hashing import Bools, Ints, none_of, uniform
from producer.malformed import MalformedKind
from producer.world.racks import World

WATERMARK_S = WATERMARK.total_seconds()
"""How late a record may be in event time and must still count: the watermark of the jobs."""
DELAY_MARGIN_S = 20
"""How much of a watermark is left for the other records in a batch."""
MAX_DELAY_S = WATERMARK_S - DELAY_MARGIN_S
"""How much faults may delay a record that must count."""
IMPRESSIONS_WATERMARK_S = IMPRESSIONS_WATERMARK.total_seconds()
"""The same for a run of clicks only: the join's shorter watermark, that of impressions."""
MAX_CLICKS_DELAY_S = IMPRESSIONS_WATERMARK_S - DELAY_MARGIN_S

Share = Annotated[float, Meta(gt=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=1e9)]
"""The bound, thirty years, refuses infinity."""


class Fault(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="fault"):
    """A fault with its options."""

    @property
    def name(self) -> str:
        """The name in options and scenario files."""
        return str(self.__struct_config__.tag)


class EventFault(Fault, frozen=True, kw_only=True):
    """A fault of single events, spread evenly over the run."""

    share: Share = 0.01


class RackFault(Fault, frozen=True, kw_only=True):
    """A fault of whole racks during episodes.

    `racks` is how many racks (the seed chooses them) or a list of their ids.
    """

    racks: Annotated[int, Meta(ge=1)] | list[str] = 2
    start_s: Seconds = 10.0
    length_s: PositiveSeconds = 30.0
    every_s: PositiveSeconds | None = 120.0
    stagger_s: Seconds = 0.0
    """How much later each further rack begins than the rack before it."""

    def places(self, world: World) -> Ints:
        """Return for each rack of the world its place among the affected racks, or -1."""
        places = np.full(len(world.rack_ids), -1, dtype=np.int64)
        name = self.name
        if isinstance(self.racks, list):
            index = {rack_id: i for i, rack_id in enumerate(world.rack_ids)}
            unknown = [rack_id for rack_id in self.racks if rack_id not in index]
            if unknown:
                raise UserFacingError(
                    f"the fault {name} names {unknown[0]!r}; the racks are {_range(world)}."
                )
            chosen = np.array([index[rack_id] for rack_id in self.racks], dtype=np.int64)
        elif self.racks > len(world.rack_ids):
            raise UserFacingError(
                f"the fault {name} asks for {self.racks} of {len(world.rack_ids)} racks."
            )
        else:
            drawn = uniform(
                world.seed, f"racks of {name}", np.arange(len(world.rack_ids), dtype=np.int64)
            )
            chosen = np.argsort(drawn, kind="stable")[: self.racks]
        places[chosen] = np.arange(len(chosen))
        return places

    def active(self, places: Ints, since_start_ms: Ints) -> Bools:
        """Return which readings are affected, by rack place and milliseconds of event time."""
        affected = places >= 0
        if not affected.any():
            return none_of(places)
        into = (
            since_start_ms
            - np.int64(self.start_s * 1000)
            - places * np.int64(self.stagger_s * 1000)
        )
        affected &= into >= 0
        if self.every_s is not None:
            into = into % np.int64(self.every_s * 1000)
        return affected & (into < self.length_s * 1000)


class Overheating(RackFault, frozen=True, tag="overheating"):
    """Racks at or above their threshold, by up to `above_c` °C."""

    above_c: Annotated[float, Meta(ge=0, le=50)] = 6.0


class Hovering(RackFault, frozen=True, tag="hovering"):
    """Racks that stay within `within_c` °C of their threshold and cross it as often as possible."""

    start_s: Seconds = 0.0
    length_s: PositiveSeconds = 1e9
    every_s: PositiveSeconds | None = None
    within_c: Annotated[float, Meta(ge=0, le=10)] = 1.0


class Silence(RackFault, frozen=True, tag="silence"):
    """Racks that send nothing; the gateway still counts, so their sequence numbers are missing."""


class Lossy(RackFault, frozen=True, tag="lossy"):
    """Racks of which only the share `arriving` of the readings arrives; the gateway counts all."""

    arriving: Annotated[float, Meta(gt=0, lt=1)] = 0.1


class WeakSignal(RackFault, frozen=True, tag="weak-signal"):
    """Racks whose signal strength is at most `at_most` (of 1)."""

    at_most: Annotated[float, Meta(ge=0, le=1)] = 0.15


class Late(EventFault, frozen=True, tag="late"):
    """Events sent `min_s` to `max_s` after they happened, within the watermark: they must count."""

    min_s: Seconds = 1.0
    max_s: Annotated[float, Meta(gt=0, le=MAX_CLICKS_DELAY_S)] = 20.0


class OutOfOrder(EventFault, frozen=True, tag="out-of-order"):
    """Events sent after up to `places` later ones of their subject; impressions after a click."""

    places: Annotated[int, Meta(ge=1, le=1000)] = 3


class Duplicate(EventFault, frozen=True, tag="duplicate"):
    """Events of which up to `copies` byte-identical copies are sent up to `max_s` later."""

    copies: Annotated[int, Meta(ge=1, le=2)] = 2
    max_s: Annotated[float, Meta(ge=0, le=MAX_DELAY_S)] = 5.0


class TooLate(EventFault, frozen=True, tag="too-late"):
    """Events with a clock `min_s` to `max_s` behind, past the watermark: they may count or not."""

    # Impressions are 1 h 50 min further behind, clicks 2 h 50 min: their watermarks are longer.
    share: Share = 0.002
    min_s: Annotated[float, Meta(ge=WATERMARK_S + 60)] = 900.0
    max_s: Annotated[float, Meta(ge=WATERMARK_S + 60)] = 3600.0


class Future(EventFault, frozen=True, tag="future"):
    """Events with a clock `min_s` to `max_s` ahead, which event-time jobs leave out."""

    share: Share = 0.002
    min_s: Annotated[float, Meta(ge=600)] = 3600.0
    max_s: Annotated[float, Meta(ge=600)] = 5 * 3600.0


class Malformed(EventFault, frozen=True, tag="malformed"):
    """Records that no job can read, in place of an event: dead letters. The kinds take turns."""

    share: Share = 0.002
    kinds: list[MalformedKind] | None = None
    """Which kinds, of those that the stream can have; all except `large` when not given."""


class Orphan(EventFault, frozen=True, tag="orphan"):
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
FAULT_TYPES: dict[str, type[Fault]] = {
    str(fault.__struct_config__.tag): fault
    for fault in (
        Overheating, Late, TooLate, OutOfOrder, Duplicate, Malformed, Future, Silence, Lossy,
        WeakSignal, Hovering, Orphan,
    )
}  # fmt: skip


def check_together(faults: Sequence[AnyFault], streams: Sequence[str] = ("racks",)) -> None:
    """Raise `UserFacingError` where faults exclude each other or add up to too much lateness."""
    names = [fault.name for fault in faults]
    for name in names:
        if names.count(name) > 1 and not issubclass(FAULT_TYPES[name], RackFault):
            raise UserFacingError(
                f"the fault {name} is given twice: give it once with all its options."
            )
    for fault in faults:
        if isinstance(fault, Late | TooLate | Future) and fault.min_s > fault.max_s:
            raise UserFacingError(
                f"the fault {fault.name} has min_s {fault.min_s:g} above max_s {fault.max_s:g}."
            )
    latest = sum(fault.max_s for fault in faults if isinstance(fault, Late | Duplicate))
    only_clicks = set(streams) == {"clicks"}
    watermark, bound = (
        (IMPRESSIONS_WATERMARK_S, MAX_CLICKS_DELAY_S) if only_clicks else (WATERMARK_S, MAX_DELAY_S)
    )
    if latest > bound:
        raise UserFacingError(
            f"a duplicate of a late event could be {latest:g} s late, beyond the watermark of "
            f"{watermark:g} s: max_s of late and of duplicate must add up to at most {bound:g}."
        )


def _range(world: World) -> str:
    return f"{world.rack_ids[0]} to {world.rack_ids[-1]}"
