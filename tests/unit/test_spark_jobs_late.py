"""What a line of progress says of lateness and lag."""

from typing import Any

import pytest

from spark_jobs.late import late_records, records_behind

WATERMARK, WATERMARK_S = "2026-11-18T10:00:00.000Z", 1_794_996_000.0


def progress(operators: dict[str, int], closes: list[tuple[float, float]] | None = None) -> dict[str, Any]:
    """Return a batch's progress: what each operator dropped, and how many records end in which window."""
    states = [
        {"operatorName": name, "numRowsDroppedByWatermark": dropped} for name, dropped in operators.items()
    ]
    if closes is None:
        return {"stateOperators": states}
    counted = [{"x": x, "y": y} for x, y in closes]
    return {"stateOperators": states, "observedMetrics": {"event_times": {"closes": counted}}}


def test_where_repeats_are_removed_first_what_those_operators_dropped_is_exact() -> None:
    operators = {"symmetricHashJoin": 5, "dedupeWithinWatermark": 3, "dedupe": 4}
    assert late_records(progress(operators), None) == 7


def test_before_an_aggregation_records_of_closed_windows_are_counted() -> None:
    closes = [(WATERMARK_S - 600, 700.0), (WATERMARK_S, 30.0), (WATERMARK_S + 600, 1.0)]
    assert late_records(progress({"stateStoreSave": 2}, closes), WATERMARK) == 730


def test_of_a_batch_without_records_none_is_late() -> None:
    batch = progress({"stateStoreSave": 0})
    batch["observedMetrics"] = {"event_times": {"closes": None}}
    assert late_records(batch, WATERMARK) == 0


@pytest.mark.parametrize(
    "batch", [progress({"stateStoreSave": 9}), progress({"stateStoreSave": 9}, [(1.0, 1.0)])]
)
def test_what_cannot_be_told_is_not_made_up(batch: dict[str, Any]) -> None:
    assert late_records(batch, None) is None


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, 3),
        ({"t": {"0": 5}}, None, None),
    ],
)
def test_the_lag_is_what_the_topic_holds_beyond_the_batch(end: Any, latest: Any, behind: int | None) -> None:
    assert records_behind({"sources": [{"endOffset": end, "latestOffset": latest}]}) == behind
