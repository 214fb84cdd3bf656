"""Count late records from the progress of a query's batches.

Spark's `numRowsDroppedByWatermark` counts the rows that an operator is handed. Before an
aggregation that is one row per group and partition, not one per record, so it is a lower bound.
`action_counts` has its event times observed before (`observe_event_times`). For other jobs that
aggregate what they read, the number of late records is unknown. Where duplicates are removed first,
that operator is handed the records themselves and its number is exact.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.times import to_ms

_METRIC, _WINDOW_ENDS = "event_times", "window_ends"
_MAX_BINS = 10_000
"""Counts are exact up to this number of windows per batch; then neighbours share a count."""


def observe_event_times(events: DataFrame, slide: str) -> DataFrame:
    """Return the same rows, and report in the progress how many fall into which window.

    In: `event_time`; `slide` is the time between the starts of two windows. It belongs before any
    aggregation. A record is late when the first window that ends after it is closed.
    """
    window_end = F.unix_seconds(F.window("event_time", slide).getField("end")).cast("double")
    counts = F.histogram_numeric(_WINDOW_ENDS, F.lit(_MAX_BINS)).alias(_WINDOW_ENDS)
    return events.withColumn(_WINDOW_ENDS, window_end).observe(_METRIC, counts).drop(_WINDOW_ENDS)


def late_records(progress: Mapping[str, Any], watermark_before: str | None) -> int | None:
    """Return how many records of a batch were dropped as late, or None where that is unknown.

    `progress` is Spark's progress of the batch. `watermark_before` is the watermark of the batch
    before it, by which Spark drops late records. It is unknown in the first batch after a restart.
    """
    deduplications = [
        operator
        for operator in progress["stateOperators"]
        if operator["operatorName"].startswith("dedupe")
    ]
    if deduplications:
        return sum(int(operator["numRowsDroppedByWatermark"]) for operator in deduplications)
    observed = progress.get("observedMetrics", {}).get(_METRIC)
    if observed is None or watermark_before is None:
        return None
    watermark_s = to_ms(watermark_before) / 1000
    counts: list[float] = [
        bin_["y"] for bin_ in observed[_WINDOW_ENDS] or [] if bin_["x"] <= watermark_s
    ]
    return round(sum(counts))
