"""Count the records that a job leaves out, from the progress of its batches.

Nobody may be reporting dead letters: then these counts grow, and the topic `dead-letters` does not.
In Real-time Mode the count of a batch is known at its end.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.runtime.parsing import is_left_out, readable

_PREFIX = "left_out_of_"


def used_records(parsed: DataFrame, source_topic: str, *, by_event_time: bool) -> DataFrame:
    """Return the parsed records that a job uses, and report in the progress how many it does not.

    In: what `parsing.parse` returns.
    """
    count = F.count_if(is_left_out(by_event_time=by_event_time)).alias("records")
    counted = parsed.observe(_PREFIX + source_topic.replace("-", "_"), count)
    return readable(counted, by_event_time=by_event_time)


def records_left_out(progress: Mapping[str, Any]) -> int | None:
    """Return how many records a batch left out, or None where the query does not count them."""
    observed = progress.get("observedMetrics", {})
    counts = [row["records"] for name, row in observed.items() if name.startswith(_PREFIX)]
    return sum(counts) if counts else None
