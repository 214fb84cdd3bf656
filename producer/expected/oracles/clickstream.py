"""Compute attributions, sessions, totals and counts by the contract's rules.

In: records in any order, copies included. Out: rows with the fields of the outputs.

`too_late_ids` has the ids of events that came too late; Spark may count them or not. A row that
depends on one is indeterminate (`"either": true`), and each row that may come out is listed:

- A late impression, all copies of it: its rows with each of its clicks, and its row without any.
- A late click: its row, and its impression's row without any, unless another click joins it for
  certain.
- A late action: the count of its window, and the sessions with and without it. If one session has
  more than six such actions, only those with all and with none of them are listed; what comes out
  lies between the start and the end of the longest listed one.

A row that comes only when the watermark has passed its end is not due if it has not (`"not_due":
true`): an impression without a click, and a session. `watermark_ms` is the final watermark, None if
it has passed all. A row that ends at that very moment is indeterminate.

A user with a late purchase has one total, which counts all of them: a job with bounded state
cannot tell whether so late a purchase is a copy. `truth` leaves out events that are too far ahead
of their append time, as every job does.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from decimal import Decimal
from itertools import chain, combinations
from typing import TypeVar

from events.constants import CLICK_WITHIN, SESSION_GAP, WINDOW
from events.records import AdClick, AdImpression, Event, UserAction
from events.times import duration_ms, to_ms, to_text
from producer.expected.oracles.rows import Row, mark_indeterminate, mark_not_due

CLICK_WITHIN_MS = duration_ms(CLICK_WITHIN)
SESSION_GAP_MS = duration_ms(SESSION_GAP)
WINDOW_MS = duration_ms(WINDOW)
MAX_COMBINED = 6

_Some = TypeVar("_Some", bound=Event)


def attributions(
    impressions: Iterable[AdImpression],
    clicks: Iterable[AdClick],
    too_late_ids: Collection[str] = (),
    watermark_ms: int | None = None,
) -> Iterator[Row]:
    """Yield a row for each distinct click of each distinct impression, or one without a click.

    Impressions are distinct by `impression_id`, and clicks by `event_id`.
    """
    clicks_on: dict[str, list[AdClick]] = defaultdict(list)
    for click in _distinct(clicks):
        clicks_on[click.impression_id].append(click)
    copies: dict[str, list[AdImpression]] = defaultdict(list)
    for impression in impressions:
        copies[impression.impression_id].append(impression)
    for same in copies.values():
        impression = same[0]
        indeterminate = all(copy.event_id in too_late_ids for copy in same)
        joined = [
            click for click in clicks_on[impression.impression_id] if _joins(impression, click)
        ]
        for click in joined:
            yield mark_indeterminate(
                _attribution(impression, click), indeterminate or click.event_id in too_late_ids
            )
        for_sure = [click for click in joined if click.event_id not in too_late_ids]
        last_click_ms = to_ms(impression.event_time) + CLICK_WITHIN_MS
        if indeterminate or not for_sure:
            row = mark_indeterminate(
                _attribution(impression, None),
                indeterminate or bool(joined) or last_click_ms == watermark_ms,
            )
            yield mark_not_due(row, last_click_ms, watermark_ms)


def sessions(
    actions: Iterable[UserAction],
    too_late_ids: Collection[str] = (),
    watermark_ms: int | None = None,
) -> Iterator[Row]:
    """Yield the sessions of each user: distinct actions at most 30 minutes apart."""
    by_user: dict[str, list[UserAction]] = defaultdict(list)
    for action in _distinct(actions):
        by_user[action.user_id].append(action)
    for own in by_user.values():
        for together in _sessions(own):
            maybe = [action for action in together if action.event_id in too_late_ids]
            sure = [action for action in together if action.event_id not in too_late_ids]
            sizes = range(len(maybe) + 1) if len(maybe) <= MAX_COMBINED else (0, len(maybe))
            rows: list[Row] = []
            for counted in chain.from_iterable(combinations(maybe, size) for size in sizes):
                for session in _sessions([*sure, *counted]):
                    end_ms = to_ms(session[-1].event_time) + SESSION_GAP_MS
                    row = mark_indeterminate(
                        _session(session), bool(maybe) or end_ms == watermark_ms
                    )
                    row = mark_not_due(row, end_ms, watermark_ms)
                    if row not in rows:
                        rows.append(row)
            yield from rows


def totals(actions: Iterable[UserAction], too_late_ids: Collection[str] = ()) -> Iterator[Row]:
    """Yield the last total of each user who bought something, over distinct purchases."""
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
        yield mark_indeterminate(
            row, any(purchase.event_id in too_late_ids for purchase in purchases)
        )


def action_counts(
    actions: Iterable[UserAction], too_late_ids: Collection[str] = ()
) -> Iterator[Row]:
    """Yield the number of records per action and tumbling window of 10 minutes; copies count."""
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for action in actions:
        event_ms = to_ms(action.event_time)
        found[event_ms - event_ms % WINDOW_MS, action.action].append(action.event_id)
    for (start_ms, name), event_ids in sorted(found.items()):
        row = {
            "window_start": to_text(start_ms),
            "window_end": to_text(start_ms + WINDOW_MS),
            "action": name,
            "user_id": None,
            "action_count": len(event_ids),
        }
        yield mark_indeterminate(row, any(event_id in too_late_ids for event_id in event_ids))


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
