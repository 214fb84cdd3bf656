"""Build a clickstream's history as topics hold it, and the output that Spark must derive from it.

The expected output compares every event with every other.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import Any

from events.records import AdClick, AdImpression, Event, UserAction, encode
from events.times import now_ms, to_ms, to_text
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    AD_CLICKS,
    AD_IMPRESSIONS,
    DEAD_LETTERS,
    DISTINCT_EVENTS,
    USER_ACTIONS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)
from tests import builders
from tests.support import Kafka

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
LONG_AGO_MS = 24 * HOUR_MS
LENGTH_MS = 4 * HOUR_MS
INPUTS = (AD_IMPRESSIONS, AD_CLICKS, USER_ACTIONS)
NOT_EVENTS = (b"{", b"\xff", b'{"event_id":7}')


@dataclass(slots=True)
class Sent:
    """What is sent to the three topics, in order, and which of it is an event that counts.

    `left_out` has the values that event-time jobs leave out, by topic, each with the reason.
    """

    records: list[tuple[Topic, bytes, bytes]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    left_out: list[tuple[Topic, bytes, str]] = field(default_factory=list)

    def impressions(self) -> dict[str, AdImpression]:
        """Return the distinct impressions by event."""
        return {event.event_id: event for event in self.events if isinstance(event, AdImpression)}

    def clicks(self) -> dict[str, AdClick]:
        """Return the distinct clicks by event."""
        return {event.event_id: event for event in self.events if isinstance(event, AdClick)}

    def actions(self) -> list[UserAction]:
        """Return the actions as they were sent, repeats too."""
        return [event for event in self.events if isinstance(event, UserAction)]


def history(seed: int, size: int) -> Sent:
    """Return a day-old history of four hours.

    It has repeats, late and early clicks, orphans, unreadable records and events of the future.

    An event arrives up to nine minutes late, a click up to half an hour, a repeat within eight
    minutes of the first.
    """
    random = Random(seed)
    start, future = now_ms() - LONG_AGO_MS, to_text(now_ms() + HOUR_MS)
    arrivals: list[tuple[float, Event]] = []

    def send(event: Event, latest_ms: int = 9 * MINUTE_MS) -> None:
        arrival = to_ms(event.event_time) + random.choice([0, 0, random.randrange(latest_ms)])
        arrivals.append((arrival, event))
        if random.random() < 0.1:
            arrivals.append((to_ms(event.event_time) + random.randrange(8 * MINUTE_MS), event))

    for number in range(size):
        seen_ms = start + random.randrange(LENGTH_MS)
        ids = {
            "impression_id": f"i{number}",
            "ad_id": f"ad-{number % 7}",
            "user_id": f"u{number % 50}",
        }
        send(builders.impression(event_id=f"ei{number}", event_time=to_text(seen_ms), **ids))
        for click in range(random.choice([0, 0, 1, 2])):
            after = random.choice(
                [
                    0,
                    HOUR_MS,
                    HOUR_MS + 1,
                    -1,
                    random.randrange(HOUR_MS),
                    random.randrange(2 * HOUR_MS),
                ]
            )
            name = f"c{number}-{click}"
            when = to_text(seen_ms + after)
            send(builders.click(name, event_id=f"e{name}", event_time=when, **ids), HOUR_MS // 2)
        acted = builders.action(
            f"ea{number}",
            event_time=to_text(start + random.randrange(LENGTH_MS)),
            user_id=f"u{random.randrange(50)}",
            action=random.choice(["open", "close", "view"]),
        )
        if random.random() < 0.2:
            acted.action, acted.amount = "purchase", Decimal(random.randrange(100_000)) / 100
        send(acted)
    sent = Sent()
    for _, event in sorted(arrivals, key=lambda arrival: arrival[0]):
        add(sent, event)
        if random.random() < 0.01:
            leave_out(sent, random.choice(INPUTS), random.choice(NOT_EVENTS), "unreadable")
        if random.random() < 0.01:
            name = f"future-{len(sent.records)}"
            topic, future_event = random.choice(
                [
                    (AD_IMPRESSIONS, builders.impression(name, event_time=future)),
                    (AD_CLICKS, builders.click(name, event_time=future)),
                    (USER_ACTIONS, builders.action(name, event_time=future)),
                ]
            )
            leave_out(sent, topic, encode(future_event), "future")
    return sent


def add(sent: Sent, event: Event) -> None:
    """Append an event to what is sent."""
    match event:
        case AdImpression():
            topic, key = AD_IMPRESSIONS, event.impression_id
        case AdClick():
            topic, key = AD_CLICKS, event.impression_id
        case UserAction():
            topic, key = USER_ACTIONS, event.user_id
        case _:
            raise TypeError(event)
    sent.events.append(event)
    sent.records.append((topic, key.encode(), encode(event)))


def leave_out(sent: Sent, topic: Topic, value: bytes, reason: str) -> None:
    """Append a value to what is sent that event-time jobs leave out."""
    sent.records.append((topic, b"left out", value))
    sent.left_out.append((topic, value, reason))


def flush(sent: Sent) -> None:
    """Append an event to each topic that is half a day newer than all others."""
    when = to_text(now_ms() - LONG_AGO_MS // 2)
    about = {"user_id": "flush", "event_time": when}
    add(sent, builders.impression("flush-i", event_id="flush-i", **about))
    add(sent, builders.click("flush-c", "flush-c", event_id="flush-c", **about))
    add(sent, builders.action("flush-a", **about))


def expected(sent: Sent) -> dict[str, Any]:
    """Return what must be in the outputs."""
    return {
        AD_ATTRIBUTION.name: _attributions(sent),
        ACTION_COUNTS.name: _counts(sent),
        USER_SESSIONS.name: _sessions(sent),
        USER_TOTALS.name: _totals(sent),
        DISTINCT_EVENTS.name: {event.event_id for event in sent.actions()},
        DEAD_LETTERS.name: dict(
            Counter((topic.name, reason) for topic, _, reason in sent.left_out)
        ),
    }


def found(kafka: Kafka) -> dict[str, Any]:
    """Return what is in the outputs, each record once; where the last record counts, that one."""
    values = {
        topic.name: [json.loads(r.value or b"") for r in kafka.read_all(topic)]
        for topic in _OUTPUTS
    }
    dead_letters = {
        (v["source_topic"], v["partition"], v["offset"], v["reason"])
        for v in values[DEAD_LETTERS.name]
    }
    return {
        AD_ATTRIBUTION.name: {
            (
                v["impression_id"],
                v["ad_id"],
                v["user_id"],
                v["impression_time"],
                v["click_id"],
                v["click_time"],
                v["seconds_to_click"],
            )
            for v in values[AD_ATTRIBUTION.name]
        },
        ACTION_COUNTS.name: {
            (v["window_start"], v["window_end"], v["action"]): v["action_count"]
            for v in values[ACTION_COUNTS.name]
        },
        USER_SESSIONS.name: {
            (
                v["user_id"],
                v["session_start"],
                v["session_end"],
                v["action_count"],
                round(v["amount_total"] * 100),
            )
            for v in values[USER_SESSIONS.name]
        },
        USER_TOTALS.name: {
            v["user_id"]: (v["event_time"], round(v["amount_total"] * 100), v["purchase_count"])
            for v in values[USER_TOTALS.name]
        },
        DISTINCT_EVENTS.name: {v["event_id"] for v in values[DISTINCT_EVENTS.name]},
        DEAD_LETTERS.name: dict(Counter((topic, reason) for topic, _, _, reason in dead_letters)),
    }


_OUTPUTS = (
    AD_ATTRIBUTION,
    ACTION_COUNTS,
    USER_SESSIONS,
    USER_TOTALS,
    DISTINCT_EVENTS,
    DEAD_LETTERS,
)


def _attributions(sent: Sent) -> set[Any]:
    clicked: dict[str, list[AdClick]] = {}
    for click in sent.clicks().values():
        clicked.setdefault(click.impression_id, []).append(click)
    rows: set[Any] = set()
    for seen in sent.impressions().values():
        if seen.event_id == "flush-i":
            continue
        about = (seen.impression_id, seen.ad_id, seen.user_id, seen.event_time)
        after = [
            (to_ms(c.event_time) - to_ms(seen.event_time), c)
            for c in clicked.get(seen.impression_id, [])
        ]
        within = [
            (*about, c.click_id, c.event_time, ms / 1000) for ms, c in after if 0 <= ms <= HOUR_MS
        ]
        rows |= set(within) or {(*about, None, None, None)}
    return rows


def _counts(sent: Sent) -> dict[Any, int]:
    counts: Counter[Any] = Counter()
    for action in sent.actions():
        start = to_ms(action.event_time) // (10 * MINUTE_MS) * 10 * MINUTE_MS
        counts[to_text(start), to_text(start + 10 * MINUTE_MS), action.action] += 1
    return dict(counts)


def _by_user(sent: Sent) -> dict[str, list[UserAction]]:
    users: dict[str, list[UserAction]] = {}
    for action in {action.event_id: action for action in sent.actions()}.values():
        users.setdefault(action.user_id, []).append(action)
    return {user: sorted(actions, key=lambda a: a.event_time) for user, actions in users.items()}


def _sessions(sent: Sent) -> set[Any]:
    rows: set[Any] = set()
    for user, actions in _by_user(sent).items():
        groups: list[list[UserAction]] = []
        for action in actions:
            at = to_ms(action.event_time)
            if groups and at - to_ms(groups[-1][-1].event_time) <= 30 * MINUTE_MS:
                groups[-1].append(action)
            else:
                groups.append([action])
        for group in groups:
            end = to_text(to_ms(group[-1].event_time) + 30 * MINUTE_MS)
            rows.add((user, group[0].event_time, end, len(group), _cents(group)))
    return {row for row in rows if row[0] != "flush"}


def _totals(sent: Sent) -> dict[str, Any]:
    bought = {
        user: [action for action in actions if action.action == "purchase"]
        for user, actions in _by_user(sent).items()
    }
    return {
        user: (all_[-1].event_time, _cents(all_), len(all_))
        for user, all_ in bought.items()
        if all_
    }


def _cents(actions: list[UserAction]) -> int:
    return int(sum((action.amount or Decimal(0) for action in actions), Decimal(0)) * 100)
