"""How many records came too late, and how far behind the topics is a query? Taken from the progress of its batches.

Spark's `numRowsDroppedByWatermark` counts what an operator is handed. Before an aggregation that is one row per group
and partition, not one per record: a lower bound. So jobs that aggregate what they read have their event times counted
before (`with_event_times_counted`). Where repeats are removed first, that operator is handed the records themselves,
and its figure is exact.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.times import to_ms

_METRIC, _CLOSES = "event_times", "closes"
_BUCKETS = 10_000
"""Counts are exact while a batch spans at most so many windows; beyond, neighbours are counted together."""


def with_event_times_counted(events: DataFrame, slide: str) -> DataFrame:
    """Return the same rows, with how many end in which window counted on the way, before any aggregation.

    In: `event_time`; `slide` is how often a window begins. A record is late when the first window that ends after it
    is closed.
    """
    closes = F.unix_seconds(F.window("event_time", slide).getField("end")).cast("double")
    counted = F.histogram_numeric(_CLOSES, F.lit(_BUCKETS)).alias(_CLOSES)
    return events.withColumn(_CLOSES, closes).observe(_METRIC, counted).drop(_CLOSES)


def late_records(progress: Mapping[str, Any], watermark_before: str | None) -> int | None:
    """Return how many records of a batch came too late to count; None where that cannot be told.

    `progress` is Spark's of the batch, `watermark_before` that of the batch before it, by which Spark tells what is
    late. It is not known in the first batch after a restart.
    """
    first_operators = [
        operator for operator in progress["stateOperators"] if operator["operatorName"].startswith("dedupe")
    ]
    if first_operators:
        return sum(int(operator["numRowsDroppedByWatermark"]) for operator in first_operators)
    counted = progress.get("observedMetrics", {}).get(_METRIC)
    if counted is None or watermark_before is None:
        return None
    watermark_s = to_ms(watermark_before) / 1000
    return sum(round(bucket["y"]) for bucket in counted[_CLOSES] or [] if bucket["x"] <= watermark_s)


def records_behind(progress: Mapping[str, Any]) -> int | None:
    """Return how many records the topics hold that the batch did not reach; None where Spark does not say."""
    behind: int = 0
    for source in progress["sources"]:
        reached, latest = source.get("endOffset"), source.get("latestOffset")
        if not isinstance(reached, dict) or not isinstance(latest, dict):
            return None
        behind += sum(
            int(offset) - int(reached.get(topic, {}).get(partition, 0))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    return behind
