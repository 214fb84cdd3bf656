"""Compare the clickstream's outputs with the truth: pure functions over rows."""

from collections.abc import Callable, Mapping, Sequence

from demo.comparison import Comparison, Row, compare, compare_last, key_of
from events.records import ActionCount, AdAttribution, UserSession, UserTotal
from events.topics import ACTION_COUNTS, AD_ATTRIBUTION, USER_SESSIONS, USER_TOTALS

TOPICS = {
    "attribution": AD_ATTRIBUTION,
    "session": USER_SESSIONS,
    "total": USER_TOTALS,
    "action-count": ACTION_COUNTS,
}
"""The truth's kinds that the clickstream's jobs must reproduce, and the topics they write to."""
KINDS = tuple(TOPICS)

_ATTRIBUTION = AdAttribution.__struct_fields__
_SESSION = UserSession.__struct_fields__
_WINDOW = ("window_start", "window_end", "action")


def compare_clickstream(
    truth: Mapping[str, Sequence[Row]], actual: Mapping[str, Sequence[Row]]
) -> dict[str, Comparison]:
    """Compare the truth's kinds: attributions and sessions by all records, others by the last.

    Rows that late data may change are indeterminate: marked `either`, and only counted.
    """
    comparers = {
        "attribution": compare_attributions,
        "session": _compare_sessions,
        "total": _compare_totals,
        "action-count": _compare_action_counts,
    }
    compared: dict[str, Comparison] = {}
    for kind, compare_kind in comparers.items():
        if kind in truth:
            compared |= compare_kind(truth[kind], actual.get(kind, ()))
    return compared


def compare_attributions(truth: Sequence[Row], actual: Sequence[Row]) -> dict[str, Comparison]:
    """Compare the clicked and the unclicked impressions."""
    either = {(row["impression_id"], row["click_id"]) for row in truth if row.get("either")}

    def is_either(row: Row) -> bool:
        return (row["impression_id"], row["click_id"]) in either

    clicked, not_clicked = _by_click(truth)
    actual_clicked, actual_not_clicked = _by_click(actual)
    return {
        "clicked impressions": _compare(clicked, actual_clicked, _ATTRIBUTION, is_either),
        "unclicked impressions": _compare(not_clicked, actual_not_clicked, _ATTRIBUTION, is_either),
    }


def _compare_sessions(truth: Sequence[Row], actual: Sequence[Row]) -> dict[str, Comparison]:
    either_sessions = [row for row in truth if row.get("either")]

    def is_either(row: Row) -> bool:
        return any(
            row["user_id"] == either["user_id"]
            and either["session_start"] <= row["session_start"]
            and row["session_end"] <= either["session_end"]
            for either in either_sessions
        )

    return {"sessions": _compare(truth, actual, _SESSION, is_either)}


def _compare_totals(truth: Sequence[Row], actual: Sequence[Row]) -> dict[str, Comparison]:
    return {"user totals": compare_last(truth, actual, UserTotal, ("user_id",))}


def _compare_action_counts(truth: Sequence[Row], actual: Sequence[Row]) -> dict[str, Comparison]:
    return {"action counts": compare_last(truth, actual, ActionCount, _WINDOW)}


def _by_click(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    with_click = [row for row in rows if row["click_id"] is not None]
    return with_click, [row for row in rows if row["click_id"] is None]


def _compare(
    truth: Sequence[Row],
    actual: Sequence[Row],
    key: Sequence[str],
    is_either: Callable[[Row], bool],
) -> Comparison:
    return compare(
        {key_of(row, key): row for row in truth if not is_either(row)},
        {key_of(row, key): row for row in actual if not is_either(row)},
        (),
        "row",
        len({key_of(row, key) for row in truth if is_either(row)}),
    )
