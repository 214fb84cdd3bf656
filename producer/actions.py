"""What do users do? Sessions of actions as pure functions of (seed, number).

As many users are active at a time as the rate needs for each to act every half minute: action `number` is taken
in lane `number % lanes`, and each lane goes from one user to the next. A turn of 16 actions is two users', cut
where the seed says, so that a session has 4 to 12: it begins with `open`, goes from page to page, buys something
now and then, and ends with `close`. A lane has so many users that each rests for more than 30 minutes before its
next session. Where the rate is lower than an action in half a minute there is one lane, and more time between.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.records import Action, UserAction
from events.times import to_text
from events.topics import USER_ACTIONS
from producer.audience import CHECKOUT, Audience
from producer.encoding import event_end, event_start, integers, joined, json_text
from producer.faults import AnyFault
from producer.hashing import Bools, Ints, uniform
from producer.schedule import Schedule
from producer.stream import FLUSH_SUBJECT, StreamPlan, seed_of

EVERY_S = 30.0
"""How long a user takes from one action to the next, in seconds of event time."""
TURN, SHORTEST = 16, 4
"""Actions of two sessions together, and of one at least."""
REST_S = 45 * 60.0
"""How long a user rests at least between two sessions: the gap that ends one is 30 minutes."""
BUYING = 0.12
"""The share of purchases among the actions between `open` and `close`."""
DEAREST_CENTS = 500_000
ACTIONS: tuple[Action, ...] = ("open", "view", "purchase", "close")
OPEN, VIEW, PURCHASE, CLOSE = range(4)
SETTLING_S = 80 * 60.0
"""When all is closed: the longest time that any job waits is an hour, its watermark 10 minutes."""


@dataclass(slots=True, eq=False)
class Actions:
    """Actions in columns: times in epoch ms, actions, pages and devices by their place, amounts in cents."""

    numbers: Ints
    event_ms: Ints
    users: Ints
    actions: Ints
    pages: Ints
    devices: Ints
    cents: Ints

    @property
    def purchases(self) -> Bools:
        """Tell which are purchases: only those have an amount."""
        bought: Bools = self.actions == PURCHASE
        return bought


class ActionPlan(StreamPlan):
    """The actions of one run."""

    topic = USER_ACTIONS
    settling_s = SETTLING_S

    def __init__(
        self, seed: int, audience: Audience, schedule: Schedule, faults: Sequence[AnyFault], run_id: str
    ) -> None:
        super().__init__(seed_of(seed, self.topic), schedule, faults)
        self.audience = audience
        self._run_id = run_id
        self.lanes = max(1, round(schedule.per_event_second * EVERY_S))
        every_s = self.lanes / schedule.per_event_second
        # Between a user's sessions lie all turns of the lane but at most 11 actions of its own two.
        self.users_of_lane = 2 * math.ceil((REST_S / every_s + TURN) / TURN)
        self._names = pa.array([json_text(name)[1:-1] + "-" for name in audience.names])
        self._does = pa.array(
            [
                f'","action":"{action}","page":{json_text(page)},"device":{json_text(device)}'
                for action in ACTIONS
                for page in audience.pages
                for device in audience.devices
            ]
        )
        self._cents = pa.array([f".{cents:02d}" for cents in range(100)])

    @property
    def run_id(self) -> str:
        """What the ids of this run's events begin with."""
        return self._run_id

    @property
    def subjects(self) -> int:
        """How many users are active at a time, and take turns."""
        return self.lanes

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times that the actions tell, in epoch milliseconds."""
        marks = self.marks(numbers)
        event_ms = self.schedule.event_ms(numbers) - self._behind_ms(numbers, marks)
        return self._put_ahead(event_ms, numbers, marks)

    def actions(self, numbers: Ints) -> Actions:
        """Draw the actions with these numbers."""
        lane, place = numbers % self.lanes, numbers // self.lanes
        turn, place = place // TURN, place % TURN
        cut = _between(self.seed, "length", turn * self.lanes + lane, SHORTEST, TURN - SHORTEST + 1)
        second = place >= cut
        step = np.where(second, place - cut, place)
        last = np.where(second, TURN - cut, cut) - 1
        user = (2 * turn + second) % self.users_of_lane * self.lanes + lane
        actions = np.where(uniform(self.seed, "buys", numbers) < BUYING, PURCHASE, VIEW)
        actions[step == 0] = OPEN
        actions[step == last] = CLOSE
        pages = _between(self.seed, "page", numbers, 0, len(self.audience.pages))
        pages[actions == PURCHASE] = self.audience.pages.index(CHECKOUT)
        prices = 500 * (1 - uniform(self.seed, "price", numbers)) ** -0.8
        return Actions(
            numbers=numbers,
            event_ms=self.event_ms(numbers),
            users=user,
            actions=actions,
            pages=pages,
            devices=_between(self.seed, "device", user, 0, len(self.audience.devices)),
            cents=np.minimum(prices, DEAREST_CENTS).astype(np.int64),
        )

    def records(self, numbers: Ints) -> list[UserAction]:
        """Return the actions with these numbers as records."""
        drawn, audience = self.actions(numbers), self.audience
        rows = zip(
            numbers.tolist(),
            drawn.event_ms.tolist(),
            drawn.users.tolist(),
            drawn.actions.tolist(),
            drawn.pages.tolist(),
            drawn.devices.tolist(),
            drawn.cents.tolist(),
            strict=True,
        )
        return [
            UserAction(
                event_id=f"{self.run_id}-a{number}",
                event_time=to_text(event_ms),
                user_id=audience.user_id(user),
                action=ACTIONS[action],
                page=audience.pages[page],
                device=audience.devices[device],
                amount=Decimal(cents).scaleb(-2) if action == PURCHASE else None,
            )
            for number, event_ms, user, action, page, device, cents in rows
        ]

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the actions with these numbers."""
        drawn, audience = self.actions(numbers), self.audience
        user = [self._names.take(pa.array(drawn.users % len(audience.names))), integers(drawn.users)]
        does = (drawn.actions * len(audience.pages) + drawn.pages) * len(audience.devices) + drawn.devices
        amounts = pc.binary_join_element_wise(
            pa.scalar(',"amount":'),
            integers(drawn.cents // 100),
            self._cents.take(pa.array(drawn.cents % 100)),
            pa.scalar(""),
        )
        values = joined(
            event_start(f"{self.run_id}-a", numbers, drawn.event_ms),
            [pa.scalar('Z","user_id":"'), *user],
            [self._does.take(pa.array(does))],
            [pc.if_else(pa.array(drawn.purchases), amounts, pa.scalar(""))],
            event_end(scheduled_ms),
        )
        return joined(user), values

    def flush_record(self, event_ms: int) -> tuple[str, UserAction]:
        """Return a view by a user of its own, who never buys."""
        return FLUSH_SUBJECT, UserAction(
            event_id=f"{self.run_id}-flush-action",
            event_time=to_text(event_ms),
            user_id=FLUSH_SUBJECT,
            action="view",
            page="/",
            device=FLUSH_SUBJECT,
        )


def _between(seed: int, purpose: str, numbers: Ints, least: int, below: int) -> Ints:
    return least + (uniform(seed, purpose, numbers) * (below - least)).astype(np.int64)
