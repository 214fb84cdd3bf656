"""Who sees which ad, and who clicks on it? Impressions and clicks as pure functions of (seed, number).

There are ten impressions to a click. A click has its place in time by its own number, like every event; it draws
how long it took, and from that knows its impression: the one that was shown so long before. So neither stream
needs the other's memory, and both can be drawn from any number on. The time to click is a Lomax distribution
(median 47 s); of the clicks that have more than an hour to look back on, 1 in 140 comes more than an hour later.
One in twenty repeats the impression that the click before it drew, and one in 250 stands on a bound: in turn
exactly an hour after its impression, an hour and a millisecond, at the same moment, a millisecond before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.records import AdClick, AdImpression
from events.times import to_text
from events.topics import AD_CLICKS, AD_IMPRESSIONS
from producer.audience import Audience
from producer.encoding import event_end, event_start, integers, joined, json_text
from producer.faults import CLICKS_WATERMARK_S, AnyFault, OfEvents, Orphan, OutOfOrder
from producer.hashing import Bools, Floats, Ints, none_of, one_in_each_block, uniform
from producer.schedule import Schedule
from producer.stream import FLUSH_SUBJECT, Mark, Marks, StreamPlan, seed_of

IMPRESSIONS_PER_CLICK = 10
USERS = 5000
HOUR_MS = 3_600_000
USUAL_MS, TAIL = 60_000.0, 1.2
"""Scale and shape of the time to click."""
LONGEST_MS = 3 * HOUR_MS
AGAIN = 0.05
"""The share of clicks on the impression of the click before."""
AT_BOUND = 0.004
BOUNDS_MS = np.array([HOUR_MS, HOUR_MS + 1, 0, -1], dtype=np.int64)
SETTLING_S = 3600 + 3 * 3600 + 600.0
"""When no click can come any more: the bound of an hour, the longer watermark, and some room."""


@dataclass(slots=True, eq=False)
class Impressions:
    """Impressions in columns: times in epoch ms, ads and pages by their place, users by number."""

    numbers: Ints
    event_ms: Ints
    ads: Ints
    users: Ints
    pages: Ints


@dataclass(slots=True, eq=False)
class Clicks:
    """Clicks in columns: times in epoch ms, the number of their impression, and whether there is none such."""

    numbers: Ints
    event_ms: Ints
    impressions: Ints
    orphan: Bools


class ImpressionPlan(StreamPlan):
    """The impressions of one run."""

    topic = AD_IMPRESSIONS
    watermark_s = CLICKS_WATERMARK_S
    settling_s = SETTLING_S

    def __init__(
        self, seed: int, audience: Audience, schedule: Schedule, faults: Sequence[AnyFault], run_id: str
    ) -> None:
        super().__init__(seed_of(seed, self.topic), schedule, faults)
        self.audience = audience
        self._run_id = run_id
        self._ads = pa.array([f'","ad_id":{json_text(ad)},"user_id":"' for ad in audience.ads])
        self._names = pa.array([json_text(name)[1:-1] + "-" for name in audience.names])
        self._pages = pa.array([f'","page":{json_text(page)}' for page in audience.pages])

    @property
    def run_id(self) -> str:
        """What the ids of this run's events begin with."""
        return self._run_id

    @property
    def subjects(self) -> int:
        """Every impression stands for itself."""
        return 1

    def clock_ms(self, numbers: Ints) -> Ints:
        """Return when the impressions were shown, by a clock that may be behind: clicks follow it."""
        return self.schedule.event_ms(numbers) - self._behind_ms(numbers, self.marks(numbers))

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times that the impressions tell, in epoch milliseconds."""
        return self._put_ahead(self.clock_ms(numbers), numbers, self.marks(numbers))

    def ads(self, numbers: Ints) -> Ints:
        """Return each impression's ad: the first ones are shown more often than the last."""
        return _place(uniform(self.seed, "ad", numbers) ** 2, len(self.audience.ads))

    def users(self, numbers: Ints) -> Ints:
        """Return each impression's user."""
        return _place(uniform(self.seed, "user", numbers), USERS)

    def impressions(self, numbers: Ints) -> Impressions:
        """Draw the impressions with these numbers."""
        return Impressions(
            numbers=numbers,
            event_ms=self.event_ms(numbers),
            ads=self.ads(numbers),
            users=self.users(numbers),
            pages=_place(uniform(self.seed, "page", numbers), len(self.audience.pages)),
        )

    def records(self, numbers: Ints) -> list[AdImpression]:
        """Return the impressions with these numbers as records."""
        drawn, audience = self.impressions(numbers), self.audience
        return [
            AdImpression(
                event_id=f"{self.run_id}-i{number}",
                event_time=to_text(event_ms),
                impression_id=f"imp-{self.run_id}-{number}",
                ad_id=audience.ads[ad],
                user_id=audience.user_id(user),
                page=audience.pages[page],
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
        values = joined(
            event_start(f"{self.run_id}-i", numbers, drawn.event_ms),
            [pa.scalar(f'Z","impression_id":"imp-{self.run_id}-'), digits],
            self.ad_and_user(drawn.ads, drawn.users),
            [self._pages.take(pa.array(drawn.pages))],
            event_end(scheduled_ms),
        )
        return joined([pa.scalar(f"imp-{self.run_id}-"), digits]), values

    def ad_and_user(self, ads: Ints, users: Ints) -> list[object]:
        """Return the pieces that name an ad and a user, beginning and ending inside of quotation marks."""
        names = self._names.take(pa.array(users % len(self.audience.names)))
        return [self._ads.take(pa.array(ads)), names, integers(users)]

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

    def clicked_first(self, clicks: Ints) -> Bools:
        """Tell which clicks are sent before their impression: click k before impression 10 (k - 1)."""
        if self._out_of_order is None:
            return none_of(clicks)
        fault = self._out_of_order
        return one_in_each_block(fault.share, self.seed, fault.name, clicks)[0] & (clicks > 0)

    def _hit(self, fault: OfEvents, numbers: Ints) -> Bools:
        if isinstance(fault, OutOfOrder):
            hit = self.clicked_first(numbers // IMPRESSIONS_PER_CLICK + 1)
            hit[numbers % IMPRESSIONS_PER_CLICK != 0] = False
            return hit
        return super()._hit(fault, numbers)

    def _overtaking(self, places: Ints) -> Ints:
        return IMPRESSIONS_PER_CLICK + places


class ClickPlan(StreamPlan):
    """The clicks of one run on its impressions."""

    topic = AD_CLICKS
    watermark_s = 3 * 3600.0
    settling_s = SETTLING_S

    def __init__(
        self, seed: int, impressions: ImpressionPlan, schedule: Schedule, faults: Sequence[AnyFault]
    ) -> None:
        super().__init__(seed_of(seed, self.topic), schedule, faults)
        self._shown = impressions
        self._orphan = next((fault for fault in faults if isinstance(fault, Orphan)), None)

    @property
    def run_id(self) -> str:
        """What the ids of this run's events begin with."""
        return self._shown.run_id

    @property
    def subjects(self) -> int:
        """Every click stands for itself."""
        return 1

    def marks(self, numbers: Ints) -> Marks:
        """Tell what the faults do to the clicks with these numbers."""
        marks = super().marks(numbers)
        if self._orphan:
            marks[self._hit(self._orphan, numbers)] |= np.uint8(Mark.ORPHAN)
        return marks

    def clicks(self, numbers: Ints) -> Clicks:
        """Draw the clicks with these numbers."""
        marks = self.marks(numbers)
        too_late = (marks & Mark.TOO_LATE) > 0
        since = self._since_start(numbers) - self._behind_ms(numbers, marks)
        impressions = self._looking_back(numbers, since)
        again = (uniform(self.seed, "again", numbers) < AGAIN) & (numbers > 0) & ~too_late
        before = numbers[again] - 1
        impressions[again] = self._looking_back(before, self._since_start(before))
        first = self._shown.clicked_first(numbers) & ~too_late
        impressions[first] = (numbers[first] - 1) * IMPRESSIONS_PER_CLICK
        waited = since - self._since_start_of(impressions)
        bound, blocks = one_in_each_block(AT_BOUND, self.seed, "bound", numbers)
        bound &= (since > HOUR_MS) & ~first & ~too_late
        waited[bound] = BOUNDS_MS[blocks[bound] % len(BOUNDS_MS)]
        impressions[bound] = self._latest(since[bound] - np.maximum(waited[bound], 0))
        event_ms = self._put_ahead(self._shown.clock_ms(impressions) + waited, numbers, marks)
        return Clicks(numbers, event_ms, impressions, (marks & Mark.ORPHAN) > 0)

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times that the clicks tell, in epoch milliseconds."""
        return self.clicks(numbers).event_ms

    def records(self, numbers: Ints) -> list[AdClick]:
        """Return the clicks with these numbers as records."""
        drawn, audience = self.clicks(numbers), self._shown.audience
        rows = zip(
            numbers.tolist(),
            drawn.event_ms.tolist(),
            drawn.impressions.tolist(),
            drawn.orphan.tolist(),
            self._shown.ads(drawn.impressions).tolist(),
            self._shown.users(drawn.impressions).tolist(),
            strict=True,
        )
        return [
            AdClick(
                event_id=f"{self.run_id}-c{number}",
                event_time=to_text(event_ms),
                click_id=f"click-{self.run_id}-{number}",
                impression_id=f"imp-{self.run_id}-{f'none-{number}' if orphan else impression}",
                ad_id=audience.ads[ad],
                user_id=audience.user_id(user),
            )
            for number, event_ms, impression, orphan, ad, user in rows
        ]

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the clicks with these numbers."""
        drawn, digits = self.clicks(numbers), integers(numbers)
        impressions = integers(drawn.impressions)
        if drawn.orphan.any():
            nowhere = pc.binary_join_element_wise(pa.scalar("none-"), digits, pa.scalar(""))
            impressions = pc.if_else(pa.array(drawn.orphan), nowhere, impressions)
        shown = self._shown
        values = joined(
            event_start(f"{self.run_id}-c", numbers, drawn.event_ms),
            [pa.scalar(f'Z","click_id":"click-{self.run_id}-'), digits],
            [pa.scalar(f'","impression_id":"imp-{self.run_id}-'), impressions],
            shown.ad_and_user(shown.ads(drawn.impressions), shown.users(drawn.impressions)),
            [pa.scalar('"')],
            event_end(scheduled_ms),
        )
        return joined([pa.scalar(f"imp-{self.run_id}-"), impressions]), values

    def flush_record(self, event_ms: int) -> tuple[str, AdClick]:
        """Return a click on an impression that there is not, the flush record of impressions neither."""
        subject = f"{FLUSH_SUBJECT}-click"
        return subject, AdClick(
            event_id=f"{self.run_id}-flush-click",
            event_time=to_text(event_ms),
            click_id=subject,
            impression_id=subject,
            ad_id=FLUSH_SUBJECT,
            user_id=FLUSH_SUBJECT,
        )

    def _hit(self, fault: OfEvents, numbers: Ints) -> Bools:
        # What is out of order is the impression, sent after its click.
        return none_of(numbers) if isinstance(fault, OutOfOrder) else super()._hit(fault, numbers)

    def _since_start(self, numbers: Ints) -> Ints:
        return self.schedule.event_ms(numbers) - self.schedule.start_event_ms

    def _since_start_of(self, impressions: Ints) -> Ints:
        return self._shown.schedule.event_ms(impressions) - self.schedule.start_event_ms

    def _looking_back(self, numbers: Ints, since_ms: Ints) -> Ints:
        """Return the impression that was shown when the time that these clicks took began."""
        took = time_to_click_ms(uniform(self.seed, "time to click", numbers))
        # Near the start there is not so much to look back on: then it is a part of what there is.
        early = took > since_ms
        took[early] = uniform(self.seed, "early", numbers[early]) * np.maximum(since_ms[early], 0)
        return self._latest(since_ms - took.astype(np.int64))

    def _latest(self, since_ms: Ints) -> Ints:
        """Return the last impression that was shown by a time after the start, or else the first."""
        return np.maximum(self._shown.schedule.by_then(since_ms), 0)


def time_to_click_ms(lots: Floats) -> Floats:
    """Return the time to click in milliseconds for each lot in [0, 1)."""
    times: Floats = USUAL_MS * ((1 - lots) ** (-1 / TAIL) - 1)
    return np.minimum(times, LONGEST_MS)


def _place(lots: Floats, count: int) -> Ints:
    return (lots * count).astype(np.int64)
