"""The clickstream's share of the demo's verdict: each way in which a row can be missing or wrong is found."""

from typing import Any

import pytest

from demo.clickstream import KINDS, compare_clickstream

Rows = dict[str, list[dict[str, Any]]]


def attribution(number: int, click: int | None = None, **more: Any) -> dict[str, Any]:
    return {
        "impression_id": f"i{number}",
        "ad_id": "ad",
        "user_id": "u",
        "impression_time": "2026-11-21T06:00:00.000Z",
        "click_id": None if click is None else f"c{click}",
        "click_time": None if click is None else "2026-11-21T06:00:07.000Z",
        "seconds_to_click": None if click is None else 7.0,
    } | more


def session(user: str, start: str = "06:00", end: str = "06:40", **more: Any) -> dict[str, Any]:
    return {
        "user_id": user,
        "session_start": f"2026-11-21T{start}:00.000Z",
        "session_end": f"2026-11-21T{end}:00.000Z",
        "action_count": 4,
        "amount_total": 7.4,
    } | more


def total(user: str, **more: Any) -> dict[str, Any]:
    at = "2026-11-21T06:00:00.000Z"
    return {"user_id": user, "event_time": at, "amount_total": 7.4, "purchase_count": 1} | more


def count(action: str, **more: Any) -> dict[str, Any]:
    window = {"window_start": "2026-11-21T06:00:00.000Z", "window_end": "2026-11-21T06:10:00.000Z"}
    return {**window, "action": action, "user_id": None, "action_count": 5} | more


TRUTH: Rows = {
    "attribution": [attribution(1, 1), attribution(1, 2), attribution(2)],
    "session": [session("a"), session("b")],
    "total": [total("a")],
    "action-count": [count("view"), count("open")],
}


def changed(kind: str, at: int, **fields: Any) -> Rows:
    rows = [dict(row) for row in TRUTH[kind]]
    rows[at] |= fields
    return {**TRUTH, kind: rows}


def faults(truth: Rows, seen: Rows) -> dict[str, tuple[int, int]]:
    compared = compare_clickstream(truth, seen)
    return {name: (len(each.missing), len(each.wrong)) for name, each in compared.items() if not each.holds}


def test_what_came_as_it_had_to_holds_repeats_too() -> None:
    seen = {kind: [*rows, *rows] for kind, rows in TRUTH.items()}
    compared = compare_clickstream(TRUTH, seen)
    assert {name: (each.expected, each.seen) for name, each in compared.items()} == {
        "impressions joined with a click": (2, 2),
        "impressions alone": (1, 1),
        "sessions": (2, 2),
        "totals of users": (1, 1),
        "counts of actions": (2, 2),
    }
    assert all(each.holds for each in compared.values())


@pytest.mark.parametrize(
    ("kind", "at", "fields", "found"),
    [
        ("attribution", 0, {"seconds_to_click": 8.0}, {"impressions joined with a click": (1, 1)}),
        ("attribution", 1, {"click_id": "c9"}, {"impressions joined with a click": (1, 1)}),
        ("attribution", 2, {"ad_id": "other"}, {"impressions alone": (1, 1)}),
        ("session", 1, {"action_count": 3}, {"sessions": (1, 1)}),
        ("session", 0, {"amount_total": 7.41}, {"sessions": (1, 1)}),
        ("total", 0, {"amount_total": 7.41}, {"totals of users": (0, 1)}),
        ("total", 0, {"user_id": "z"}, {"totals of users": (1, 1)}),
        ("action-count", 1, {"action_count": 6}, {"counts of actions": (0, 1)}),
    ],
)
def test_another_row_is_wrong_and_the_right_one_missing(
    kind: str, at: int, fields: dict[str, Any], found: dict[str, tuple[int, int]]
) -> None:
    assert faults(TRUTH, changed(kind, at, **fields)) == found


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_not_there_is_missing_and_one_that_was_not_due_is_wrong(kind: str) -> None:
    fewer = {**TRUTH, kind: TRUTH[kind][1:]}
    assert list(faults(TRUTH, fewer).values()) == [(1, 0)]
    assert list(faults(fewer, TRUTH).values()) == [(0, 1)]


def test_what_depends_on_a_late_event_is_not_compared_and_counted() -> None:
    truth: Rows = {
        "attribution": [*TRUTH["attribution"], attribution(3, 3, either=True), attribution(3, either=True)],
        "session": [*TRUTH["session"], session("c", "06:00", "08:00", either=True)],
        "total": [*TRUTH["total"], total("c", either=True)],
        "action-count": [*TRUTH["action-count"], count("close", either=True)],
    }
    parts = [session("c", "06:00", "06:50"), session("c", "07:00", "08:00")]
    for seen in (
        TRUTH,
        {**TRUTH, "attribution": [*TRUTH["attribution"], attribution(3)]},
        {**TRUTH, "session": [*TRUTH["session"], *parts]},
        {**TRUTH, "total": [*TRUTH["total"], total("c", purchase_count=9)]},
        {**TRUTH, "action-count": [*TRUTH["action-count"], count("close", action_count=99)]},
    ):
        compared = compare_clickstream(truth, seen)
        assert all(each.holds for each in compared.values())
        assert [each.either for each in compared.values()] == [1, 1, 1, 1, 1]
    beyond = {**TRUTH, "session": [*TRUTH["session"], session("c", "05:00", "06:50")]}
    assert faults(truth, beyond) == {"sessions": (0, 1)}
