"""Draw user actions in sessions, as functions of (seed, number).

A user in a session acts every 30 seconds, so the rate decides how many sessions go on at a time.
Each is in a *slot*: action `number` belongs to slot `number % slots`. A turn is 16 actions in a
slot: a session of one user, then of another. The seed divides it, so that a session has 4 to 12
actions: `open`, views with an occasional purchase, `close`. Each slot has enough users for each to
rest for at least 45 minutes between two sessions. At less than one action in 30 seconds there is
one slot, and more time between two actions.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events.records import Action, UserAction
from events.times import to_text
from events.topics import USER_ACTIONS
from producer.hashing import Bools, Ints, uniform
from producer.streams.clickstream_plan import ClickstreamPlan
from producer.streams.encoding import event_end, event_start, integers, join_columns, json_text
from producer.streams.stream_plan import FLUSH_SUBJECT
from producer.world.clickstream_entities import CHECKOUT

INTERVAL_S = 30.0
"""How long a user takes from one action to the next, in seconds of event time."""
ACTIONS_PER_TURN, MIN_ACTIONS = 16, 4
"""Actions of two sessions together, and of one at least."""
MIN_REST_S = 45 * 60.0
"""How long a user rests at least between two sessions; a gap of 30 minutes ends a session."""
PURCHASE_SHARE = 0.12
"""The share of purchases among the actions between `open` and `close`."""
MAX_CENTS = 500_000
ACTIONS: tuple[Action, ...] = ("open", "view", "purchase", "close")
OPEN, VIEW, PURCHASE, CLOSE = range(4)
FLUSH_DELAY_S = 80 * 60.0
"""After this time all windows and sessions are closed: jobs wait an hour plus 10 min at most."""


_CENTS = pa.array([f".{cents:02d}" for cents in range(100)])


@dataclass(slots=True, eq=False)
class Actions:
    """Actions in columns.

    Times are in epoch ms, actions, pages and devices by index, amounts in cents.
    """

    numbers: Ints
    event_ms: Ints
    users: Ints
    actions: Ints
    pages: Ints
    devices: Ints
    cents: Ints

    @property
    def purchases(self) -> Bools:
        """Which actions are purchases; only those have an amount."""
        bought: Bools = self.actions == PURCHASE
        return bought


class ActionPlan(ClickstreamPlan):
    """The actions of one run."""

    topic = USER_ACTIONS
    flush_delay_s = FLUSH_DELAY_S

    @cached_property
    def slots(self) -> int:
        """The number of users who act at a time."""
        return max(1, round(self.schedule.event_time_rate * INTERVAL_S))

    @cached_property
    def users_of_slot(self) -> int:
        """The number of users who take turns in a slot."""
        every_s = self.slots / self.schedule.event_time_rate
        # Between two sessions of a user lie all turns of the slot, less at most 11 actions.
        return 2 * math.ceil((MIN_REST_S / every_s + ACTIONS_PER_TURN) / ACTIONS_PER_TURN)

    @cached_property
    def _does(self) -> pa.Array:
        return pa.array(
            [
                f'","action":"{action}","page":{json_text(page)},"device":{json_text(device)}'
                for action in ACTIONS
                for page in self.entities.pages
                for device in self.entities.devices
            ]
        )

    @property
    def subjects(self) -> int:
        """The number of users active at a time, who take turns."""
        return self.slots

    def event_ms(self, numbers: Ints) -> Ints:
        """Return the event times in the actions, in epoch milliseconds."""
        flags = self.flags(numbers)
        event_ms = self.schedule.event_ms(numbers) - self._too_late_by_ms(numbers, flags)
        return self._with_future(event_ms, numbers, flags)

    def actions(self, numbers: Ints) -> Actions:
        """Draw the actions with these numbers."""
        slot, place = numbers % self.slots, numbers // self.slots
        turn, place = place // ACTIONS_PER_TURN, place % ACTIONS_PER_TURN
        cut = _between(
            self.seed,
            "length",
            turn * self.slots + slot,
            MIN_ACTIONS,
            ACTIONS_PER_TURN - MIN_ACTIONS + 1,
        )
        second = place >= cut
        step = np.where(second, place - cut, place)
        last = np.where(second, ACTIONS_PER_TURN - cut, cut) - 1
        user = (2 * turn + second) % self.users_of_slot * self.slots + slot
        actions = np.where(uniform(self.seed, "buys", numbers) < PURCHASE_SHARE, PURCHASE, VIEW)
        actions[step == 0] = OPEN
        actions[step == last] = CLOSE
        pages = _between(self.seed, "page", numbers, 0, len(self.entities.pages))
        pages[actions == PURCHASE] = self.entities.pages.index(CHECKOUT)
        prices = 500 * (1 - uniform(self.seed, "price", numbers)) ** -0.8
        return Actions(
            numbers=numbers,
            event_ms=self.event_ms(numbers),
            users=user,
            actions=actions,
            pages=pages,
            devices=_between(self.seed, "device", user, 0, len(self.entities.devices)),
            cents=np.minimum(prices, MAX_CENTS).astype(np.int64),
        )

    def records(self, numbers: Ints) -> list[UserAction]:
        """Return the actions with these numbers as records."""
        drawn, entities = self.actions(numbers), self.entities
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
                user_id=entities.user_id(user),
                action=ACTIONS[action],
                page=entities.pages[page],
                device=entities.devices[device],
                amount=Decimal(cents).scaleb(-2) if action == PURCHASE else None,
            )
            for number, event_ms, user, action, page, device, cents in rows
        ]

    def encoded(self, numbers: Ints, scheduled_ms: Ints | None) -> tuple[list[bytes], list[bytes]]:
        """Return keys and values of the actions with these numbers."""
        drawn, entities = self.actions(numbers), self.entities
        user = self.user_ids(drawn.users)
        does = (drawn.actions * len(entities.pages) + drawn.pages) * len(
            entities.devices
        ) + drawn.devices
        amounts = pc.binary_join_element_wise(
            pa.scalar(',"amount":'),
            integers(drawn.cents // 100),
            _CENTS.take(pa.array(drawn.cents % 100)),
            pa.scalar(""),
        )
        values = join_columns(
            event_start(f"{self.run_id}-a", numbers, drawn.event_ms),
            [pa.scalar('Z","user_id":"'), *user],
            [self._does.take(pa.array(does))],
            [pc.if_else(pa.array(drawn.purchases), amounts, pa.scalar(""))],
            event_end(scheduled_ms),
        )
        return join_columns(user), values

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
