"""Draw impressions and clicks as functions of (seed, number).

There are ten impressions per click. A click has its time by its own number, as every event does. It
draws how long it took, and that determines its impression: the one shown that long before. So
neither stream needs the other's state, and both can be drawn from any number on.

The time to click has a Lomax distribution (median 47 s). Of the clicks more than an hour after the
start, 1 in 140 comes more than an hour after its impression. One in twenty repeats the impression
of the click before. One in 250 lies on a boundary, in turn exactly an hour after its impression,
an hour and a millisecond after it, at the same moment, and a millisecond before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.constants import CLICK_WITHIN, CLICKS_WATERMARK
from events.records import AdClick, AdImpression
from events.times import duration_ms, to_text
from events.topics import AD_CLICKS, AD_IMPRESSIONS
from producer.faults import IMPRESSIONS_WATERMARK_S, AnyFault, EventFault, Orphan, OutOfOrder
from producer.hashing import Bools, Floats, Ints, none_of, one_in_each_block, uniform
from producer.pacing.schedule import Schedule
from producer.streams.clickstream_plan import ClickstreamPlan
from producer.streams.encoding import event_end, event_start, integers, join_columns, json_text
from producer.streams.stream_plan import FLUSH_SUBJECT, FaultFlag, FaultFlags

IMPRESSIONS_PER_CLICK = 10
USERS = 5000
CLICK_WITHIN_MS = duration_ms(CLICK_WITHIN)
LOMAX_SCALE_MS, LOMAX_SHAPE = 60_000.0, 1.2
"""Scale and shape of the time to click."""
MAX_TIME_TO_CLICK_MS = 3 * 3_600_000
REPEAT_SHARE = 0.05
"""The share of clicks on the impression of the click before."""
BOUNDARY_SHARE = 0.004
BOUNDARY_DELAYS_MS = np.array([CLICK_WITHIN_MS, CLICK_WITHIN_MS + 1, 0, -1], dtype=np.int64)
FLUSH_DELAY_S = 3600 + 3 * 3600 + 600.0
"""After this time no click can join: an hour, plus the longer watermark, plus some margin."""


@dataclass(slots=True, eq=False)
class Impressions:
    """Impressions in columns: times in epoch ms, ads and pages by index, users by number."""

    numbers: Ints
    event_ms: Ints
    ads: Ints
    users: Ints
    pages: Ints


@dataclass(slots=True, eq=False)
class Clicks:
    """Clicks in columns: times in epoch ms, the number of their impression, whether it exists."""

    numbers: Ints
    event_ms: Ints
    impressions: Ints
    orphan: Bools


class ImpressionPlan(ClickstreamPlan):
    """The impressions of one run."""

    topic = AD_IMPRESSIONS
    watermark_s = IMPRESSIONS_WATERMARK_S
    flush_delay_s = FLUSH_DELAY_S

    @cached_property
    def _ads(self) -> pa.Array:
        return pa.array([f'","ad_id":{json_text(ad)},"user_id":"' for ad in self.entities.ads])

    @cached_property
    def _pages(self) -> pa.Array:
        return pa.array([f'","page":{json_text(page)}' for page in self.entities.pages])

    @property
    def subjects(self) -> int:
        """Each impression is its own subject."""
        return 1

    def clock_ms(self, numbers: Ints) -> Ints:
        """Return when the impressions were shown, by a clock that may be late; clicks follow it."""
        return self.schedule.event_ms(numbers) - self._too_late_by_ms(numbers, self.flags(numbers))

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times in the impressions, in epoch milliseconds."""
        return self._with_future(self.clock_ms(numbers), numbers, self.flags(numbers))

    def ads(self, numbers: Ints) -> Ints:
        """Return each impression's ad; the first ads are shown more often than the last."""
        return _index(uniform(self.seed, "ad", numbers) ** 2, len(self.entities.ads))

    def users(self, numbers: Ints) -> Ints:
        """Return each impression's user."""
        return _index(uniform(self.seed, "user", numbers), USERS)

    def impressions(self, numbers: Ints) -> Impressions:
        """Draw the impressions with these numbers."""
        return Impressions(
            numbers=numbers,
            event_ms=self.event_ms(numbers),
            ads=self.ads(numbers),
            users=self.users(numbers),
            pages=_index(uniform(self.seed, "page", numbers), len(self.entities.pages)),
        )

    def records(self, numbers: Ints) -> list[AdImpression]:
        """Return the impressions with these numbers as records."""
        drawn, entities = self.impressions(numbers), self.entities
        return [
            AdImpression(
                event_id=f"{self.run_id}-i{number}",
                event_time=to_text(event_ms),
                impression_id=f"imp-{self.run_id}-{number}",
                ad_id=entities.ads[ad],
                user_id=entities.user_id(user),
                page=entities.pages[page],
            )
            for number, event_ms, ad, user, page in zip(
                numbers.tolist(),
                drawn.event_ms.tolist(),
                drawn.ads.tolist(),
                drawn.users.tolist(),
                drawn.pages.tolist(),
                strict=True,
            )
        ]

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the impressions with these numbers."""
        drawn, digits = self.impressions(numbers), integers(numbers)
        values = join_columns(
            event_start(f"{self.run_id}-i", numbers, drawn.event_ms),
            [pa.scalar(f'Z","impression_id":"imp-{self.run_id}-'), digits],
            self.ad_and_user(drawn.ads, drawn.users),
            [self._pages.take(pa.array(drawn.pages))],
            event_end(scheduled_ms),
        )
        return join_columns([pa.scalar(f"imp-{self.run_id}-"), digits]), values

    def ad_and_user(self, ads: Ints, users: Ints) -> list[object]:
        """Return the pieces for an ad and a user, from inside to inside of quotation marks."""
        return [self._ads.take(pa.array(ads)), *self.user_ids(users)]

    def flush_record(self, event_ms: int) -> tuple[str, AdImpression]:
        """Return an impression that nobody clicks on."""
        return FLUSH_SUBJECT, AdImpression(
            event_id=f"{self.run_id}-flush-impression",
            event_time=to_text(event_ms),
            impression_id=FLUSH_SUBJECT,
            ad_id=FLUSH_SUBJECT,
            user_id=FLUSH_SUBJECT,
            page="/",
        )

    def click_precedes(self, clicks: Ints) -> Bools:
        """Return which clicks k are sent before their impression, which is number 10(k - 1)."""
        if self._out_of_order is None:
            return none_of(clicks)
        fault = self._out_of_order
        return one_in_each_block(fault.share, self.seed, fault.name, clicks)[0] & (clicks > 0)

    def _affected(self, fault: EventFault, numbers: Ints) -> Bools:
        if isinstance(fault, OutOfOrder):
            affected = self.click_precedes(numbers // IMPRESSIONS_PER_CLICK + 1)
            affected[numbers % IMPRESSIONS_PER_CLICK != 0] = False
            return affected
        return super()._affected(fault, numbers)

    def _displacement(self, places: Ints) -> Ints:
        return IMPRESSIONS_PER_CLICK + places


class ClickPlan(ClickstreamPlan):
    """The clicks of one run on its impressions."""

    topic = AD_CLICKS
    watermark_s = CLICKS_WATERMARK.total_seconds()
    flush_delay_s = FLUSH_DELAY_S

    def __init__(
        self, seed: int, impressions: ImpressionPlan, schedule: Schedule, faults: Sequence[AnyFault]
    ) -> None:
        super().__init__(seed, impressions.entities, schedule, faults, impressions.run_id)
        self._impressions = impressions
        self._orphan = next((fault for fault in faults if isinstance(fault, Orphan)), None)

    @property
    def subjects(self) -> int:
        """Each click is its own subject."""
        return 1

    def flags(self, numbers: Ints) -> FaultFlags:
        """Return what the faults do to the clicks with these numbers."""
        flags = super().flags(numbers)
        if self._orphan:
            flags[self._affected(self._orphan, numbers)] |= np.uint8(FaultFlag.ORPHAN)
        return flags

    def clicks(self, numbers: Ints) -> Clicks:
        """Draw the clicks with these numbers."""
        flags = self.flags(numbers)
        too_late = (flags & FaultFlag.TOO_LATE) > 0
        since = self._since_start(numbers) - self._too_late_by_ms(numbers, flags)
        impressions = self._impressions_before(numbers, since)
        repeated = (uniform(self.seed, "again", numbers) < REPEAT_SHARE) & (numbers > 0) & ~too_late
        before = numbers[repeated] - 1
        impressions[repeated] = self._impressions_before(before, self._since_start(before))
        click_is_first = self._impressions.click_precedes(numbers) & ~too_late
        impressions[click_is_first] = (numbers[click_is_first] - 1) * IMPRESSIONS_PER_CLICK
        delay_ms = since - self._since_start_of(impressions)
        at_boundary, blocks = one_in_each_block(BOUNDARY_SHARE, self.seed, "bound", numbers)
        at_boundary &= (since > CLICK_WITHIN_MS) & ~click_is_first & ~too_late
        delay_ms[at_boundary] = BOUNDARY_DELAYS_MS[blocks[at_boundary] % len(BOUNDARY_DELAYS_MS)]
        impressions[at_boundary] = self._last_shown(
            since[at_boundary] - np.maximum(delay_ms[at_boundary], 0)
        )
        event_ms = self._with_future(
            self._impressions.clock_ms(impressions) + delay_ms, numbers, flags
        )
        return Clicks(numbers, event_ms, impressions, (flags & FaultFlag.ORPHAN) > 0)

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times in the clicks, in epoch milliseconds."""
        return self.clicks(numbers).event_ms

    def records(self, numbers: Ints) -> list[AdClick]:
        """Return the clicks with these numbers as records."""
        drawn, entities = self.clicks(numbers), self.entities
        rows = zip(
            numbers.tolist(),
            drawn.event_ms.tolist(),
            drawn.impressions.tolist(),
            drawn.orphan.tolist(),
            self._impressions.ads(drawn.impressions).tolist(),
            self._impressions.users(drawn.impressions).tolist(),
            strict=True,
        )
        return [
            AdClick(
                event_id=f"{self.run_id}-c{number}",
                event_time=to_text(event_ms),
                click_id=f"click-{self.run_id}-{number}",
                impression_id=f"imp-{self.run_id}-{f'none-{number}' if orphan else impression}",
                ad_id=entities.ads[ad],
                user_id=entities.user_id(user),
            )
            for number, event_ms, impression, orphan, ad, user in rows
        ]

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the clicks with these numbers."""
        drawn, digits = self.clicks(numbers), integers(numbers)
        impressions = integers(drawn.impressions)
        if drawn.orphan.any():
            missing = pc.binary_join_element_wise(pa.scalar("none-"), digits, pa.scalar(""))
            impressions = pc.if_else(pa.array(drawn.orphan), missing, impressions)
        shown = self._impressions
        values = join_columns(
            event_start(f"{self.run_id}-c", numbers, drawn.event_ms),
            [pa.scalar(f'Z","click_id":"click-{self.run_id}-'), digits],
            [pa.scalar(f'","impression_id":"imp-{self.run_id}-'), impressions],
            shown.ad_and_user(shown.ads(drawn.impressions), shown.users(drawn.impressions)),
            [pa.scalar('"')],
            event_end(scheduled_ms),
        )
        return join_columns([pa.scalar(f"imp-{self.run_id}-"), impressions]), values

    def flush_record(self, event_ms: int) -> tuple[str, AdClick]:
        """Return a click on an impression that does not exist, not even as flush record."""
        subject = f"{FLUSH_SUBJECT}-click"
        return subject, AdClick(
            event_id=f"{self.run_id}-flush-click",
            event_time=to_text(event_ms),
            click_id=subject,
            impression_id=subject,
            ad_id=FLUSH_SUBJECT,
            user_id=FLUSH_SUBJECT,
        )

    def _affected(self, fault: EventFault, numbers: Ints) -> Bools:
        # The impression is out of order: it is sent after its click.
        return (
            none_of(numbers) if isinstance(fault, OutOfOrder) else super()._affected(fault, numbers)
        )

    def _since_start(self, numbers: Ints) -> Ints:
        return self.schedule.event_ms(numbers) - self.schedule.start_event_ms

    def _since_start_of(self, impressions: Ints) -> Ints:
        return self._impressions.schedule.event_ms(impressions) - self.schedule.start_event_ms

    def _impressions_before(self, numbers: Ints, since_ms: Ints) -> Ints:
        """Return the impressions that were shown when the time to click of these clicks began."""
        time_ms = time_to_click_ms(uniform(self.seed, "time to click", numbers))
        # Near the start less time has passed than was drawn: then take a part of that.
        early = time_ms > since_ms
        time_ms[early] = uniform(self.seed, "early", numbers[early]) * np.maximum(
            since_ms[early], 0
        )
        return self._last_shown(since_ms - time_ms.astype(np.int64))

    def _last_shown(self, since_ms: Ints) -> Ints:
        """Return the last impression that was shown by a time after the start, or the first."""
        return np.maximum(self._impressions.schedule.events_by(since_ms), 0)


def time_to_click_ms(draws: Floats) -> Floats:
    """Return the time to click in milliseconds for each drawn number in [0, 1)."""
    times: Floats = LOMAX_SCALE_MS * ((1 - draws) ** (-1 / LOMAX_SHAPE) - 1)
    return np.minimum(times, MAX_TIME_TO_CLICK_MS)


def _index(draws: Floats, count: int) -> Ints:
    return (draws * count).astype(np.int64)
