"""Count the records that a job leaves out, from the progress of its batches.

Nobody may be reporting dead letters: then these counts grow, and the topic `dead-letters` does not.
In Real-time Mode the count of a batch is known at its end.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.topics import Topic
from spark_jobs.runtime.parsing import POSITION, is_left_out, parse_in_batches

_PREFIX = "left_out_of_"


def observe_left_out(records: DataFrame, is_left_out: Column, source_topic: str) -> DataFrame:
    """Return the same rows, and report in the progress how many of them are left out."""
    count = F.count_if(is_left_out).alias("records")
    return records.observe(_PREFIX + source_topic.replace("-", "_"), count)


def usable_in_batches(
    raw: DataFrame,
    topic: Topic,
    fields: tuple[str, ...],
    to_batches: Callable[[pa.RecordBatch], pa.RecordBatch],
    batch: T.StructType,
    *,
    position: tuple[str, ...] = POSITION,
    by_event_time: bool = False,
) -> DataFrame:
    """Return what `parse_in_batches` returns, without the records that a job leaves out.

    They are counted.
    """
    if topic.record is None:
        raise TypeError(f"{topic.name} has no record to be held to")
    parsed = parse_in_batches(
        raw,
        topic.record,
        fields,
        to_batches,
        batch,
        position=position,
        by_event_time=by_event_time,
    )
    left_out = F.col("batch").isNull() & is_left_out(by_event_time=by_event_time)
    return observe_left_out(parsed, left_out, topic.name).where(~left_out)


def records_left_out(progress: Mapping[str, Any]) -> int | None:
    """Return how many records a batch left out, or None where the query does not count them."""
    observed = progress.get("observedMetrics", {})
    counts = [row["records"] for name, row in observed.items() if name.startswith(_PREFIX)]
    return sum(counts) if counts else None
