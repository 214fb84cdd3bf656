"""Aggregation without event time: total count, count per group, several aggregates.

A count of all rows is one row of state. A count per group is one row of state per group, for ever:
without event time Spark cannot remove any.

Notice: Update mode gives only the groups of this batch: camera is not in the second. `count()` on
the grouped stream is a column; `count()` on the stream itself would be an action, and is refused
(lesson unsupported_operations).
In production: `rack_temperature` computes these aggregates per window, so the watermark bounds its
state.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Show the total count, the count per group and several aggregates per group."""
    devices = context.stream("device string, deviceType string, signal double", "1.json", "2.json")
    aggregates = [getattr(F, name)("signal").alias(name) for name in ("count", "min", "max", "avg")]
    for name, rows in {
        "all": devices.groupBy().count(),
        "per type": devices.groupBy("deviceType").count(),
        "count, min, max, avg per type": devices.groupBy("deviceType").agg(*aggregates),
    }.items():
        yield name
        yield from context.run_batches(rows, "update", name)
