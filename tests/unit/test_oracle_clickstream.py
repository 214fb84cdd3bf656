"""The clickstream's oracles on short histories: bounds, copies and indeterminate rows."""

from decimal import Decimal
from itertools import permutations
from typing import Any

from events.records import AdClick, AdImpression, UserAction
from events.times import to_text
from producer.expected.oracles.clickstream import action_counts, attributions, sessions, totals
from tests import builders
from tests.unit.clickstream import HOUR, MINUTE

DAY0 = 1_795_003_200_000
"""2026-11-18T12:00:00Z, the start of a window."""


def impression(name: str, after_ms: int = 0) -> AdImpression:
    return builders.impression(name, event_time=to_text(DAY0 + after_ms))


def click(name: str, on: str, after_ms: int) -> AdClick:
    another = {"ad_id": "another ad", "user_id": "another user"}
    return builders.click(name, on, event_time=to_text(DAY0 + after_ms), **another)


def action(
    name: str, minutes: float, user: str = "u", amount: str | None = None, **changes: str
) -> UserAction:
    when = to_text(DAY0 + int(minutes * MINUTE))
    paid = Decimal(amount) if amount else None
    return builders.action(name, event_time=when, user_id=user, amount=paid, **changes)


def due(rows: Any) -> list[Any]:
    return [row for row in rows if not row.get("not_due")]


def pairs(rows: Any) -> set[tuple[str, str | None, float | None, bool]]:
    found = [
        (r["impression_id"], r["click_id"], r["seconds_to_click"], r.get("either", False))
        for r in rows
    ]
    assert len(found) == len(set(found))
    return set(found)


def spans(rows: Any) -> list[tuple[str, float, float, int, Decimal, bool]]:
    """Return user, first action and end in minutes, count, amount, `either`."""
    by_text = {to_text(DAY0 + minute * MINUTE): minute for minute in range(-600, 600)}
    return sorted(
        (
            row["user_id"],
            by_text[row["session_start"]],
            by_text[row["session_end"]],
            row["action_count"],
            row["amount_total"],
            row.get("either", False),
        )
        for row in rows
    )


def test_a_click_joins_from_the_moment_of_its_impression_to_an_hour_later() -> None:
    clicks = [
        click("at once", "i", 0),
        click("within", "i", 90_500),
        click("at the hour", "i", HOUR),
        click("past the hour", "i", HOUR + 1),
        click("before", "i", -1),
        click("of another", "j", 5),
        click("orphan", "nowhere", 5),
    ]
    rows = list(attributions([impression("i"), impression("j")], clicks))
    assert pairs(rows) == {
        ("i", "at once", 0.0, False),
        ("i", "within", 90.5, False),
        ("i", "at the hour", 3600.0, False),
        ("j", "of another", 0.005, False),
    }
    (within,) = (row for row in rows if row["click_id"] == "within")
    assert within == {
        "impression_id": "i",
        "ad_id": "ad",
        "user_id": "user",
        "impression_time": "2026-11-18T12:00:00.000Z",
        "click_id": "within",
        "click_time": "2026-11-18T12:01:30.500Z",
        "seconds_to_click": 90.5,
    }


def test_an_impression_without_a_click_has_one_row() -> None:
    rows = list(attributions([impression("i"), impression("j")], [click("late", "i", HOUR + 1)]))
    assert pairs(rows) == {("i", None, None, False), ("j", None, None, False)}
    assert rows[0]["click_time"] is None
    assert list(attributions([], [click("orphan", "i", 0)])) == []


def test_an_impression_without_a_click_has_its_row_when_the_watermark_passes_its_hour() -> None:
    shown = [impression("a"), impression("b", 1), impression("c", 2), impression("d", -HOUR)]
    watermark_ms = DAY0 + HOUR + 1
    rows = attributions(shown, [click("k", "c", 5)], watermark_ms=watermark_ms)
    assert pairs(due(rows)) == {
        ("a", None, None, False),
        ("b", None, None, True),  # at the very moment
        ("c", "k", 0.003, False),  # a pair comes at once
        ("d", None, None, False),
    }
    at_first = list(attributions(shown, [], watermark_ms=DAY0))
    assert pairs(due(at_first)) == {("d", None, None, True)}
    waiting = [row["impression_id"] for row in at_first if row.get("not_due")]
    assert waiting == ["a", "b", "c"]


def test_copies_of_impressions_and_clicks_count_once() -> None:
    shown, clicked = impression("i"), click("c", "i", 5)
    assert pairs(attributions([shown, shown], [clicked, clicked, clicked])) == {
        ("i", "c", 0.005, False)
    }


def test_impressions_with_one_id_are_copies_whatever_their_event_id() -> None:
    shown, again = impression("i"), impression("i")
    again.event_id = "shown again"
    for late_ids, indeterminate in [
        (set(), False),
        ({again.event_id}, False),
        ({shown.event_id, again.event_id}, True),
    ]:
        rows = attributions([shown, again], [], late_ids)
        assert pairs(rows) == {("i", None, None, indeterminate)}


def test_the_order_of_arrival_does_not_matter() -> None:
    clicks = [click("a", "i", 5), click("b", "i", 10), click("c", "j", 10)]
    results = [
        pairs(attributions([impression("j"), impression("i")], order))
        for order in permutations(clicks)
    ]
    assert all(result == results[0] for result in results)


def test_a_too_late_impression_may_join_may_stay_alone_and_may_be_missing() -> None:
    rows = attributions([impression("i")], [click("c", "i", 5)], {"shown i"})
    assert pairs(rows) == {("i", "c", 0.005, True), ("i", None, None, True)}
    assert pairs(attributions([impression("i")], [], {"shown i"})) == {("i", None, None, True)}


def test_a_too_late_click_may_leave_its_impression_alone_unless_another_joins() -> None:
    late, certain = click("d", "i", 5), click("s", "i", 6)
    assert pairs(attributions([impression("i")], [late], {"clicked d"})) == {
        ("i", "d", 0.005, True),
        ("i", None, None, True),
    }
    assert pairs(attributions([impression("i")], [late, certain], {"clicked d"})) == {
        ("i", "d", 0.005, True),
        ("i", "s", 0.006, False),
    }


def test_a_too_late_click_that_cannot_join_changes_nothing() -> None:
    rows = attributions([impression("i")], [click("d", "i", HOUR + 1)], {"clicked d"})
    assert pairs(rows) == {("i", None, None, False)}


def test_a_gap_of_more_than_half_an_hour_ends_a_session() -> None:
    own = [action("1", 0), action("2", 30), action("3", 60), action("4", 91)]
    assert spans(sessions(own)) == [
        ("u", 0, 90, 3, Decimal(0), False),
        ("u", 91, 121, 1, Decimal(0), False),
    ]


def test_a_gap_of_half_an_hour_and_a_millisecond_ends_a_session() -> None:
    later = action("2", 30)
    later.event_time = to_text(DAY0 + 30 * MINUTE + 1)
    assert [row["action_count"] for row in sessions([action("1", 0), later])] == [1, 1]


def test_a_session_is_written_when_the_watermark_passes_its_end() -> None:
    actions = [action("a", 0), action("b", 10), action("c", 60), action("d", 5, "w")]

    def ends(watermark: float) -> list[tuple[str, float, bool]]:
        rows = sessions(actions, watermark_ms=DAY0 + int(watermark * MINUTE))
        return [(user, end, either) for user, _, end, _, _, either in spans(due(rows))]

    assert ends(34.9) == []
    assert ends(35) == [("w", 35, True)]
    assert ends(39.9) == [("w", 35, False)]
    assert ends(89.9) == [("u", 40, False), ("w", 35, False)]
    assert ends(91) == [("u", 40, False), ("u", 90, False), ("w", 35, False)]
    waiting = [row for row in sessions(actions, watermark_ms=DAY0) if row.get("not_due")]
    assert [row["user_id"] for row in waiting] == ["u", "u", "w"]


def test_a_session_is_of_one_user_and_sums_distinct_purchases() -> None:
    bought = action("b", 5, amount="12.50")
    view = action("v", 4)
    view.amount = Decimal("99.00")
    own = [bought, view, bought, action("c", 1, amount="0.05"), action("x", 2, user="other")]
    assert spans(sessions(own)) == [
        ("other", 2, 32, 1, Decimal(0), False),
        ("u", 1, 35, 3, Decimal("12.55"), False),
    ]


def test_a_too_late_action_gives_its_session_with_and_without_it() -> None:
    own = [action("1", 0), action("2", 10), action("d", 35, amount="5.00"), action("far", 200)]
    assert spans(sessions(own, {"d"})) == [
        ("u", 0, 40, 2, Decimal(0), True),
        ("u", 0, 65, 3, Decimal("5.00"), True),
        ("u", 200, 230, 1, Decimal(0), False),
    ]


def test_a_too_late_action_between_two_sessions_may_join_them() -> None:
    own = [action("1", 0), action("d", 25), action("2", 50)]
    assert spans(sessions(own, {"d"})) == [
        ("u", 0, 30, 1, Decimal(0), True),
        ("u", 0, 80, 3, Decimal(0), True),
        ("u", 50, 80, 1, Decimal(0), True),
    ]


def test_of_many_too_late_actions_all_and_none_are_listed() -> None:
    own = [action(str(minute), minute) for minute in range(10)]
    some = spans(sessions(own, {"1", "2"}))
    assert [count for _, _, _, count, _, _ in some] == [8, 9, 10], (
        "each of the two alone gives the same row"
    )
    many = spans(sessions(own, {str(minute) for minute in range(1, 10)}))
    assert [count for _, _, _, count, _, _ in many] == [1, 10]


def test_totals_count_distinct_purchases_however_late() -> None:
    bought = action("b", 5, amount="12.50")
    own = [
        action("c", 300, amount="0.05"),
        bought,
        bought,
        action("v", 999),
        action("o", 1, user="other"),
    ]
    assert list(totals(own)) == [
        {
            "user_id": "u",
            "event_time": "2026-11-18T17:00:00.000Z",
            "amount_total": Decimal("12.55"),
            "purchase_count": 2,
        }
    ]


def test_counts_are_of_records_in_windows_that_exclude_their_end() -> None:
    twice = action("t", 9)
    own = [
        action("0", 0),
        twice,
        twice,
        action("10", 10),
        action("o", 9.9, action="open"),
        action("b", -1),
    ]
    found = [
        (
            row["window_start"][11:16],
            row["window_end"][11:16],
            row["action"],
            row["user_id"],
            row["action_count"],
        )
        for row in action_counts(own)
    ]
    assert found == [
        ("11:50", "12:00", "view", None, 1),
        ("12:00", "12:10", "open", None, 1),
        ("12:00", "12:10", "view", None, 3),
        ("12:10", "12:20", "view", None, 1),
    ]
    indeterminate = [row.get("either", False) for row in action_counts(own, {"t"})]
    assert indeterminate == [False, False, True, False]
