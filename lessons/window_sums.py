"""Tumbling and sliding windows over the same values.

Tumbling windows do not overlap: every event lies in one. Sliding windows start more often than
their length: every event lies in several. (Hopping is another word for sliding, not for tumbling.)
A window whose slide is its length is a tumbling window. A window includes its start and excludes
its end.

Notice: The tumbling sums add up to 21, the sum of the input. Windows of two minutes every minute
add up to 42, and so do windows of one minute every 30 seconds: each event counts twice. The average
per minute is the tumbling sum over three events.
In production: `action_counts` uses tumbling windows, `rack_temperature` sliding ones.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def per_window(events: DataFrame, window: Column, result: Column) -> DataFrame:
    """Return `start`, `end` and an aggregate of `value` in each window."""
    grouped = events.groupBy(window.alias("window")).agg(result)
    return grouped.select(
        F.date_format("window.start", "HH:mm:ss").alias("start"),
        F.date_format("window.end", "HH:mm:ss").alias("end"),
        *grouped.columns[1:],
    )


def run(context: LessonContext) -> Iterator[str]:
    """Show the sums for four kinds of windows, and the average per minute."""
    events = context.stream("ts timestamp, value int", "events.json")
    total, average = F.sum("value").alias("sum"), F.avg("value").alias("avg")
    for name, window, result in (
        ("tumbling, 1 minute", F.window("ts", "1 minute"), total),
        ("1 minute every minute", F.window("ts", "1 minute", "1 minute"), total),
        ("sliding, 2 minutes every minute", F.window("ts", "2 minutes", "1 minute"), total),
        ("sliding, 1 minute every 30 seconds", F.window("ts", "1 minute", "30 seconds"), total),
        ("average per minute", F.window("ts", "1 minute"), average),
    ):
        yield name
        yield from context.run_batches(per_window(events, window, result), "update", name)
