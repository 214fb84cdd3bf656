"""Which attributions, sessions, totals and counts must come out? The contract's rules, in the most obvious way.

In: records in any order, repeats among them. Out: rows with the fields of the outputs. Slow on purpose and free of
cleverness, as `oracle` is for racks: it is what the Spark jobs are compared with, so it shares no code with them.

`doubtful` holds the ids of events that came too late, of which Spark promises neither that they count nor that
they do not. A row that depends on one has `"either": true`, and each row that could come out is there:

- an impression in doubt: its rows with each of its clicks, and its row with none;
- a click in doubt: its row, and its impression's row with none unless another click joins it for sure;
- an action in doubt: the count of its window; and the sessions with and without it. Of more than six such actions
  in one session, only those with all and with none are listed; whatever comes out of it lies between the start and
  the end of the longest listed.

A user with a purchase in doubt has one total, that with all of them: whether a purchase that comes so late is a
repeat, a job with bounded state cannot tell. What lies too far ahead of its append time is set aside before any of
these, totals too: `truth` leaves it out.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from itertools import chain, combinations
from typing import Any, TypeVar

from events.records import AdClick, AdImpression, Event, UserAction
from events.times import to_ms, to_text

CLICK_WITHIN_MS = 3_600_000
"""A click joins from the moment of its impression to an hour later, both ends in."""
SESSION_GAP_MS = 30 * 60_000
COUNT_WINDOW_MS = 10 * 60_000
MOST_COMBINED = 6

_Some = TypeVar("_Some", bound=Event)
Row = dict[str, Any]


def attributions(
    impressions: Iterable[AdImpression], clicks: Iterable[AdClick], doubtful: Collection[str] = ()
) -> Iterator[Row]:
    """Yield a row for each distinct click of each distinct impression, or one with none."""
    clicks_on: dict[str, list[AdClick]] = defaultdict(list)
    for click in _distinct(clicks):
        clicks_on[click.impression_id].append(click)
    for impression in _distinct(impressions):
        in_doubt = impression.event_id in doubtful
        joined = [click for click in clicks_on[impression.impression_id] if _joins(impression, click)]
        for click in joined:
            yield _maybe(_attribution(impression, click), in_doubt or click.event_id in doubtful)
        for_sure = [click for click in joined if click.event_id not in doubtful]
        if in_doubt or not for_sure:
            yield _maybe(_attribution(impression, None), in_doubt or bool(joined))


def sessions(actions: Iterable[UserAction], doubtful: Collection[str] = ()) -> Iterator[Row]:
    """Yield the sessions of each user: distinct actions, each at most 30 minutes after the one before."""
    by_user: dict[str, list[UserAction]] = defaultdict(list)
    for action in _distinct(actions):
        by_user[action.user_id].append(action)
    for own in by_user.values():
        for together in _sessions(own):
            maybe = [action for action in together if action.event_id in doubtful]
            sure = [action for action in together if action.event_id not in doubtful]
            sizes = range(len(maybe) + 1) if len(maybe) <= MOST_COMBINED else (0, len(maybe))
            rows: list[Row] = []
            for counted in chain.from_iterable(combinations(maybe, size) for size in sizes):
                for session in _sessions([*sure, *counted]):
                    row = _maybe(_session(session), bool(maybe))
                    if row not in rows:
                        rows.append(row)
            yield from rows


def totals(actions: Iterable[UserAction], doubtful: Collection[str] = ()) -> Iterator[Row]:
    """Yield the last total of each user who bought something: distinct purchases."""
    bought: dict[str, list[UserAction]] = defaultdict(list)
    for action in _distinct(actions):
        if action.action == "purchase":
            bought[action.user_id].append(action)
    for user_id, purchases in bought.items():
        row = {
            "user_id": user_id,
            "event_time": to_text(max(to_ms(purchase.event_time) for purchase in purchases)),
            "amount_total": _amount(purchases),
            "purchase_count": len(purchases),
        }
        yield _maybe(row, any(purchase.event_id in doubtful for purchase in purchases))


def action_counts(actions: Iterable[UserAction], doubtful: Collection[str] = ()) -> Iterator[Row]:
    """Yield how many records each action has in each tumbling window of 10 minutes, repeats counted."""
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for action in actions:
        event_ms = to_ms(action.event_time)
        found[event_ms - event_ms % COUNT_WINDOW_MS, action.action].append(action.event_id)
    for (start_ms, name), event_ids in sorted(found.items()):
        row = {
            "window_start": to_text(start_ms),
            "window_end": to_text(start_ms + COUNT_WINDOW_MS),
            "action": name,
            "user_id": None,
            "action_count": len(event_ids),
        }
        yield _maybe(row, any(event_id in doubtful for event_id in event_ids))


def _distinct(events: Iterable[_Some]) -> list[_Some]:
    return list({event.event_id: event for event in events}.values())


def _joins(impression: AdImpression, click: AdClick) -> bool:
    return 0 <= to_ms(click.event_time) - to_ms(impression.event_time) <= CLICK_WITHIN_MS


def _attribution(impression: AdImpression, click: AdClick | None) -> Row:
    shown_ms = to_ms(impression.event_time)
    return {
        "impression_id": impression.impression_id,
        "ad_id": impression.ad_id,
        "user_id": impression.user_id,
        "impression_time": impression.event_time,
        "click_id": click and click.click_id,
        "click_time": click and click.event_time,
        "seconds_to_click": (to_ms(click.event_time) - shown_ms) / 1000 if click else None,
    }


def _sessions(actions: Iterable[UserAction]) -> list[list[UserAction]]:
    found: list[list[UserAction]] = []
    for action in sorted(actions, key=lambda a: to_ms(a.event_time)):
        if not found or to_ms(action.event_time) - to_ms(found[-1][-1].event_time) > SESSION_GAP_MS:
            found.append([])
        found[-1].append(action)
    return found


def _session(actions: list[UserAction]) -> Row:
    return {
        "user_id": actions[0].user_id,
        "session_start": actions[0].event_time,
        "session_end": to_text(to_ms(actions[-1].event_time) + SESSION_GAP_MS),
        "action_count": len(actions),
        "amount_total": _amount(action for action in actions if action.action == "purchase"),
    }


def _amount(purchases: Iterable[UserAction]) -> Decimal:
    return sum((purchase.amount or Decimal(0) for purchase in purchases), Decimal("0.00"))


def _maybe(row: Row, in_doubt: bool) -> Row:
    return {**row, "either": True} if in_doubt else row
