"""The clickstream's share of the verdict: attributions, sessions, totals and counts. Pure functions over rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from demo.comparison import Comparison, Row, compare
from events.topics import ACTION_COUNTS, AD_ATTRIBUTION, USER_SESSIONS, USER_TOTALS

TOPICS = {
    "attribution": AD_ATTRIBUTION,
    "session": USER_SESSIONS,
    "total": USER_TOTALS,
    "action-count": ACTION_COUNTS,
}
"""The kinds of truth that the clickstream's jobs must come to, and where the jobs write them."""
KINDS = tuple(TOPICS)

_ATTRIBUTION = (
    "impression_id",
    "ad_id",
    "user_id",
    "impression_time",
    "click_id",
    "click_time",
    "seconds_to_click",
)
_SESSION = ("user_id", "session_start", "session_end", "action_count", "amount_total")
_WINDOW = ("window_start", "window_end", "action")


def compare_clickstream(
    truth: Mapping[str, Sequence[Row]], seen: Mapping[str, Sequence[Row]]
) -> dict[str, Comparison]:
    """Compare by kind; attributions and sessions as they are, totals and counts by their last record.

    Rows that depend on an event that came too late are not compared: whatever comes out of it is right.
    """
    loose_sessions = [row for row in truth["session"] if row.get("either")]
    loose_users = {row["user_id"] for row in truth["total"] if row.get("either")}
    loose_windows = {_values(row, _WINDOW) for row in truth["action-count"] if row.get("either")}

    def session_is_loose(row: Row) -> bool:
        return any(
            row["user_id"] == loose["user_id"]
            and loose["session_start"] <= row["session_start"]
            and row["session_end"] <= loose["session_end"]
            for loose in loose_sessions
        )

    def window_is_loose(row: Row) -> bool:
        return _values(row, _WINDOW) in loose_windows

    return {
        **compare_attributions(truth["attribution"], seen["attribution"]),
        "sessions": _compare(truth["session"], seen["session"], _SESSION, (), session_is_loose),
        "totals of users": _compare(
            truth["total"],
            seen["total"],
            ("user_id",),
            ("event_time", "amount_total", "purchase_count"),
            lambda row: row["user_id"] in loose_users,
        ),
        "counts of actions": _compare(
            truth["action-count"], seen["action-count"], _WINDOW, ("action_count",), window_is_loose
        ),
    }


def compare_attributions(truth: Sequence[Row], seen: Sequence[Row]) -> dict[str, Comparison]:
    """Compare the impressions that a click joined, and those that none did."""
    loose = {(row["impression_id"], row["click_id"]) for row in truth if row.get("either")}

    def is_loose(row: Row) -> bool:
        return (row["impression_id"], row["click_id"]) in loose

    (joined, alone), (seen_joined, seen_alone) = _halves(truth), _halves(seen)
    return {
        "impressions joined with a click": _compare(joined, seen_joined, _ATTRIBUTION, (), is_loose),
        "impressions alone": _compare(alone, seen_alone, _ATTRIBUTION, (), is_loose),
    }


def _halves(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    return [r for r in rows if r["click_id"] is not None], [r for r in rows if r["click_id"] is None]


def _compare(
    truth: Iterable[Row],
    seen: Iterable[Row],
    key: tuple[str, ...],
    fields: tuple[str, ...],
    is_loose: Callable[[Row], bool] = lambda _: False,
) -> Comparison:
    rows = list(truth)
    return compare(
        {_values(row, key): row for row in rows if not is_loose(row)},
        {_values(row, key): row for row in seen if not is_loose(row)},
        fields,
        "row",
        len({_values(row, key) for row in rows if is_loose(row)}),
    )


def _values(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
