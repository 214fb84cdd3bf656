"""Late records and records left out, counted from a batch's progress."""

from typing import Any

import pytest

from spark_jobs.runtime.late_records import late_records
from spark_jobs.runtime.left_out_records import records_left_out

WATERMARK, WATERMARK_S = "2026-11-18T10:00:00.000Z", 1_794_996_000.0


def progress(
    operators: dict[str, int], window_ends: list[tuple[float, float]] | None = None
) -> dict[str, Any]:
    """Return a batch's progress.

    In: how many rows each operator dropped, and how many records are in the window with each end.
    """
    states = [
        {"operatorName": name, "numRowsDroppedByWatermark": dropped}
        for name, dropped in operators.items()
    ]
    if window_ends is None:
        return {"stateOperators": states}
    counted = [{"x": x, "y": y} for x, y in window_ends]
    return {"stateOperators": states, "observedMetrics": {"event_times": {"window_ends": counted}}}


def test_the_rows_that_deduplication_dropped_are_the_late_records() -> None:
    operators = {"symmetricHashJoin": 5, "dedupeWithinWatermark": 3, "dedupe": 4}
    assert late_records(progress(operators), None) == 7


def test_before_an_aggregation_records_of_closed_windows_are_counted() -> None:
    window_ends = [(WATERMARK_S - 600, 700.0), (WATERMARK_S, 30.0), (WATERMARK_S + 600, 1.0)]
    assert late_records(progress({"stateStoreSave": 2}, window_ends), WATERMARK) == 730


def test_a_batch_without_records_has_no_late_records() -> None:
    batch = progress({"stateStoreSave": 0})
    batch["observedMetrics"] = {"event_times": {"window_ends": None}}
    assert late_records(batch, WATERMARK) == 0


@pytest.mark.parametrize(
    "batch", [progress({"stateStoreSave": 9}), progress({"stateStoreSave": 9}, [(1.0, 1.0)])]
)
def test_an_unknown_number_of_late_records_is_none(batch: dict[str, Any]) -> None:
    assert late_records(batch, None) is None


def test_the_records_left_out_are_those_of_all_topics_or_unknown() -> None:
    observed = {
        "left_out_of_ad_clicks": {"records": 2},
        "left_out_of_ad_impressions": {"records": 3},
        "event_times": {"window_ends": []},
    }
    assert records_left_out({"observedMetrics": observed}) == 5
    assert records_left_out({"observedMetrics": {"event_times": {"window_ends": []}}}) is None
    assert records_left_out({}) is None
