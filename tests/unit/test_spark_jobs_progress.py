"""The listener of batches: what it asks the JVM for, and what it adds to Spark's progress."""

import json
from typing import Any
from unittest.mock import Mock

import pytest

from spark_jobs.runtime.progress import BatchListener, records_behind

T0, T1 = "2026-03-01T12:00:00.000Z", "2026-03-01T12:01:00.000Z"
EARLY_S, LATE_S = 1_772_366_400, 1_772_366_460
"""The same two times."""


def event(run: str, batch: int, watermark: str) -> Mock:
    """Return Spark's event of a batch with two records up to T0, and three up to T1."""
    progress = {
        "runId": run,
        "batchId": batch,
        "eventTime": {"watermark": watermark},
        "stateOperators": [],
        "sources": [{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}],
        "observedMetrics": {
            "event_times": {"window_ends": [{"x": EARLY_S, "y": 2}, {"x": LATE_S, "y": 3}]}
        },
    }
    java = Mock()
    java.progress.return_value.json.return_value = json.dumps(progress)
    java.runId.return_value.toString.return_value = run
    return java


def test_a_batch_costs_two_calls_and_its_late_records_are_those_behind_the_watermark_before() -> (
    None
):
    batches: list[dict[str, Any]] = []
    listener = BatchListener([batches.append])
    events = [event("a", 0, T0), event("a", 1, T1), event("a", 2, T1)]
    for each in events:
        listener.onQueryProgress(each)
    assert [batch["late_records"] for batch in batches] == [0, 2, 5]
    assert [batch["records_behind"] for batch in batches] == [4, 4, 4]
    # Each call is a round trip to the JVM, so the whole progress comes with one.
    assert [len(each.mock_calls) for each in events] == [2, 2, 2]


def test_a_run_that_goes_on_after_a_restart_knows_no_watermark_before_its_first_batch() -> None:
    batches: list[dict[str, Any]] = []
    listener = BatchListener([batches.append])
    listener.onQueryProgress(event("a", 7, T0))
    listener.onQueryTerminated(event("a", 7, T0))
    listener.onQueryProgress(event("a", 8, T1))
    assert [batch["late_records"] for batch in batches] == [None, None]


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, 3),
        ({"t": {"0": 5}}, None, None),
    ],
)
def test_the_records_behind_are_those_after_the_batch_in_the_topic(
    end: Any, latest: Any, behind: int | None
) -> None:
    assert records_behind({"sources": [{"endOffset": end, "latestOffset": latest}]}) == behind
