"""The dashboard's clickstream: each output counts once, and memory stays bounded."""

from decimal import Decimal
from typing import Any

import pytest

from dashboard import clickstream as clickstream_module
from dashboard.bounded import BoundedDict, RecentIds
from dashboard.clickstream import CLICK_BOUNDS_S, Clickstream
from events.records import ActionCount, AdAttribution, UserSession, UserTotal
from events.times import to_text
from tests.builders import START, T0


def attribution(
    impression: str,
    click: str | None = None,
    seconds: float | None = None,
    impression_time: str | None = START,
) -> AdAttribution:
    """Return an impression's row, with a click or without, or that of a click alone."""
    return AdAttribution(
        impression_id=impression,
        ad_id="ad",
        user_id="user",
        impression_time=impression_time,
        click_id=click,
        click_time=None if click is None else START,
        seconds_to_click=seconds,
    )


def action_count(window: int, action: str | None, count: int) -> ActionCount:
    """Return the count of an action in a window, or of a user."""
    return ActionCount(
        window_start=to_text(T0 + 600_000 * window),
        window_end=to_text(T0 + 600_000 * (window + 1)),
        action=action,
        user_id=None if action else "user",
        action_count=count,
    )


def session(user: str, number: int = 0) -> UserSession:
    """Return a user's session; their numbers are in the order of time."""
    return UserSession(
        user_id=user,
        session_start=to_text(T0 + number),
        session_end=to_text(T0 + number + 1000),
        action_count=3,
        amount_total=Decimal("1.50"),
    )


def total(user: str, amount: str, **changes: Any) -> UserTotal:
    """Return a user's total."""
    fields: dict[str, Any] = {"user_id": user, "event_time": START, "purchase_count": 1}
    return UserTotal(**fields | changes, amount_total=Decimal(amount))


def test_rows_that_come_again_count_once() -> None:
    clicks = Clickstream()
    rows = [
        attribution("a", "1", 5.0),
        attribution("a", "2", 10.0),
        attribution("b"),
        attribution("c", "3", 10.001),
        attribution("d", "4", 3600.0),
        attribution("e", "5", impression_time=None),
    ]
    for row in rows + rows:
        clicks.add_attribution(row)
    view = clicks.view()
    assert (view.attributed_clicks, view.clicked, view.unclicked) == (4, 3, 1)
    counts = dict(zip(CLICK_BOUNDS_S, view.seconds_to_click.counts, strict=False))
    assert {bound: count for bound, count in counts.items() if count} == {10: 2, 30: 1, 3600: 1}
    assert len(view.seconds_to_click.counts) == len(CLICK_BOUNDS_S) + 1


def test_a_later_count_of_a_window_replaces_the_earlier() -> None:
    clicks = Clickstream()
    for row in (
        action_count(0, "open", 1),
        action_count(0, "open", 5),
        action_count(1, "open", 2),
        action_count(1, "close", 3),
        action_count(1, None, 99),
    ):
        clicks.add_action_count(row)
    assert clicks.view().actions == {"close": 3, "open": 7}


def test_windows_that_are_no_longer_remembered_still_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clickstream_module, "WINDOWS_REMEMBERED", 2)
    clicks = Clickstream()
    for window in range(10):
        clicks.add_action_count(action_count(window, "view", 1))
        clicks.add_action_count(action_count(window, "view", 2))
    assert clicks.view().actions == {"view": 20}


def test_sessions_and_totals() -> None:
    clicks = Clickstream()
    for number in range(15):
        clicks.add_session(session(f"user-{number}", number))
        clicks.add_total(total(f"user-{number}", f"{number}.10"))
    clicks.add_session(session("user-3", 3))
    clicks.add_total(total("user-0", "100.00"))
    view = clicks.view()
    assert (view.sessions, view.totals) == (15, 15)
    assert [each.user_id for each in view.last_sessions] == [f"user-{n}" for n in range(14, 4, -1)]
    assert [each.user_id for each in view.top_totals][:3] == ["user-0", "user-14", "user-13"]
    assert len(view.top_totals) == 10
    assert view.amount_total == "206.40"


def test_arrivals_are_counted_in_whole_intervals_of_the_clock() -> None:
    clicks, begin = Clickstream(), T0 - T0 % 5000
    for second in range(3, 19):  # it starts in an interval, and ends in one
        clicks.set_arrived(100 + 10 * second, 50 + 2 * second, begin + 1000 * second)
    expected = [(begin + 5000, 50, 10), (begin + 10_000, 50, 10)]
    assert list(clicks.view().arrivals.points) == expected
    assert (clicks.view().impressions, clicks.view().clicks) == (280, 86)
    clicks.set_arrived(9000, 8000, begin + 42_000)  # nobody counted in between
    clicks.set_arrived(9100, 8000, begin + 45_000)
    assert list(clicks.view().arrivals.points) == expected
    clicks.set_arrived(9107, 8003, begin + 50_000)
    assert list(clicks.view().arrivals.points) == [*expected, (begin + 45_000, 7, 3)]


def test_a_bounded_dictionary_forgets_what_was_set_longest_ago() -> None:
    entries = BoundedDict[str, int](2)
    assert [entries.set(key, n) for n, key in enumerate("abac")] == [None, None, None, 1]
    assert (list(entries.values()), "b" in entries, len(entries)) == ([2, 3], False, 2)


def test_ids_are_remembered_up_to_a_limit() -> None:
    ids = RecentIds(2)
    assert [ids.add(number) for number in (1, 2, 1, 3, 2, 1)] == [
        True, True, False, True, False, True,
    ]  # fmt: skip
