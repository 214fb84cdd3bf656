"""Count the records that a job leaves out, from the progress of its batches.

Nobody may be reporting dead letters: then these counts grow, and the topic `dead-letters` does not.
In Real-time Mode the count of a batch is known at its end.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_PREFIX = "left_out_of_"


def observe_left_out(records: DataFrame, is_left_out: Column, source_topic: str) -> DataFrame:
    """Return the same rows, and report in the progress how many of them are left out."""
    count = F.count_if(is_left_out).alias("records")
    return records.observe(_PREFIX + source_topic.replace("-", "_"), count)


def records_left_out(progress: Mapping[str, Any]) -> int | None:
    """Return how many records a batch left out, or None where the query does not count them."""
    observed = progress.get("observedMetrics", {})
    counts = [row["records"] for name, row in observed.items() if name.startswith(_PREFIX)]
    return sum(counts) if counts else None
