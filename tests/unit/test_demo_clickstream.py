"""The demo's verdict on the clickstream finds each way to be missing or wrong."""

from typing import Any

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


def faults(truth: Rows, actual: Rows) -> dict[str, tuple[int, int]]:
    compared = compare_clickstream(truth, actual)
    return {
        name: (len(each.missing), len(each.wrong))
        for name, each in compared.items()
        if not each.passed
    }


def test_expected_rows_pass_also_when_repeated() -> None:
    actual = {kind: [*rows, *rows] for kind, rows in TRUTH.items()}
    compared = compare_clickstream(TRUTH, actual)
    assert {name: (each.expected, each.actual) for name, each in compared.items()} == {
        "clicked impressions": (2, 2),
        "unclicked impressions": (1, 1),
        "sessions": (2, 2),
        "user totals": (1, 1),
        "action counts": (2, 2),
    }
    assert all(each.passed for each in compared.values())


def test_a_changed_row_is_wrong_and_where_its_key_changed_missing() -> None:
    changes: list[tuple[str, int, dict[str, Any], dict[str, tuple[int, int]]]] = [
        ("attribution", 0, {"seconds_to_click": 8.0}, {"clicked impressions": (1, 1)}),
        ("attribution", 1, {"click_id": "c9"}, {"clicked impressions": (1, 1)}),
        ("attribution", 2, {"ad_id": "other"}, {"unclicked impressions": (1, 1)}),
        ("session", 1, {"action_count": 3}, {"sessions": (1, 1)}),
        ("session", 0, {"amount_total": 7.41}, {"sessions": (1, 1)}),
        ("total", 0, {"amount_total": 7.41}, {"user totals": (0, 1)}),
        ("total", 0, {"user_id": "z"}, {"user totals": (1, 1)}),
        ("action-count", 1, {"action_count": 6}, {"action counts": (0, 1)}),
    ]
    assert [faults(TRUTH, changed(kind, at, **fields)) for kind, at, fields, _ in changes] == [
        expected for *_, expected in changes
    ]


def test_an_absent_row_is_missing_and_an_unexpected_one_is_wrong() -> None:
    fewer = {kind: {**TRUTH, kind: TRUTH[kind][1:]} for kind in KINDS}
    found = {
        kind: [*faults(TRUTH, fewer[kind]).values(), *faults(fewer[kind], TRUTH).values()]
        for kind in KINDS
    }
    assert found == {key: [(1, 0), (0, 1)] for key in KINDS}


def test_rows_that_late_events_may_change_are_only_counted() -> None:
    truth: Rows = {
        "attribution": [
            *TRUTH["attribution"],
            attribution(3, 3, either=True),
            attribution(3, either=True),
        ],
        "session": [*TRUTH["session"], session("c", "06:00", "08:00", either=True)],
        "total": [*TRUTH["total"], total("c", either=True)],
        "action-count": [*TRUTH["action-count"], count("close", either=True)],
    }
    parts = [session("c", "06:00", "06:50"), session("c", "07:00", "08:00")]
    for actual in (
        TRUTH,
        {**TRUTH, "attribution": [*TRUTH["attribution"], attribution(3)]},
        {**TRUTH, "session": [*TRUTH["session"], *parts]},
        {**TRUTH, "total": [*TRUTH["total"], total("c", purchase_count=9)]},
        {**TRUTH, "action-count": [*TRUTH["action-count"], count("close", action_count=99)]},
    ):
        compared = compare_clickstream(truth, actual)
        assert all(each.passed for each in compared.values())
        assert [each.either for each in compared.values()] == [1, 1, 1, 1, 1]
    beyond = {**TRUTH, "session": [*TRUTH["session"], session("c", "05:00", "06:50")]}
    assert faults(truth, beyond) == {"sessions": (0, 1)}


def test_only_what_the_truth_has_is_compared() -> None:
    clicks: Rows = {"attribution": TRUTH["attribution"]}
    actions = {kind: rows for kind, rows in TRUTH.items() if kind not in clicks}
    assert [list(compare_clickstream(truth, TRUTH)) for truth in (clicks, actions, {})] == [
        ["clicked impressions", "unclicked impressions"],
        ["sessions", "user totals", "action counts"],
        [],
    ]
