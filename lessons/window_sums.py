"""Tumbling and sliding windows over the same values.

Tumbling windows do not overlap: every event lies in one. Sliding windows start more often than
their length: every event lies in several. (Hopping is another word for sliding, not for tumbling.)
A window includes its start and excludes its end.

Notice: The tumbling sums add up to 21, the sum of the input. Windows of two minutes every minute
add up to 42, and so do windows of one minute every 30 seconds: each event counts twice.
In production: `action_counts` uses tumbling windows, `rack_temperature` sliding ones.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def sums(events: DataFrame, window: Column) -> DataFrame:
    """Return `start`, `end` and the `sum` of `value` in each window."""
    grouped = events.groupBy(window.alias("window")).agg(F.sum("value").alias("sum"))
    return grouped.select(
        F.date_format("window.start", "HH:mm:ss").alias("start"),
        F.date_format("window.end", "HH:mm:ss").alias("end"),
        "sum",
    )


def run(context: LessonContext) -> Iterator[str]:
    """Show the sums for three kinds of windows."""
    events = context.stream("ts timestamp, value int", "events.json")
    for name, window in {
        "tumbling, 1 minute": F.window("ts", "1 minute"),
        "sliding, 2 minutes every minute": F.window("ts", "2 minutes", "1 minute"),
        "sliding, 1 minute every 30 seconds": F.window("ts", "1 minute", "30 seconds"),
    }.items():
        yield name
        yield from context.run_batches(sums(events, window), "update", name)
