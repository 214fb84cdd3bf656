"""Counting without time: all rows, rows per group, several figures at once.

A count of all rows is one row of state, so it is one task. A count per group is a row of state per group, for ever:
without a time to go by, nothing can be forgotten.

Notice: Update gives the groups of this batch alone: camera is not in the second. `count()` on the grouped stream is a
column of the result; `count()` on a stream itself would be an action, and is refused (lesson unsupported_operations).
In production: `rack_temperature` has these four figures per window, so that what it keeps is bounded by the
watermark.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Show the global count, the count per group and several aggregates per group."""
    devices = lab.stream("device string, deviceType string, signal double", "1.json", "2.json")
    figures = [getattr(F, name)("signal").alias(name) for name in ("count", "min", "max", "avg")]
    for name, rows in {
        "all": devices.groupBy().count(),
        "per type": devices.groupBy("deviceType").count(),
        "count, min, max, avg per type": devices.groupBy("deviceType").agg(*figures),
    }.items():
        yield name
        yield from lab.batches(rows, "update", name)
