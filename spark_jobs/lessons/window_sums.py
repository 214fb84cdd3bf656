"""The same sum in tumbling and sliding windows.

Tumbling windows stand side by side: every event lies in one. Sliding windows begin more often than they are long:
every event lies in several. (Hopping is another word for sliding, not for tumbling.) Windows are half open: the start
belongs to it, the end to the next.

Notice: The tumbling sums add up to 21, which was sent. Windows of two minutes every minute add up to 42, and windows
of a minute every 30 seconds also: each event counts twice.
In production: `action_counts` uses tumbling windows, `rack_temperature` sliding ones.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def sums(events: DataFrame, window: Column) -> DataFrame:
    """Return `start`, `end` and the `sum` of `value` in each window."""
    grouped = events.groupBy(window.alias("window")).agg(F.sum("value").alias("sum"))
    return grouped.select(
        F.date_format("window.start", "HH:mm:ss").alias("start"),
        F.date_format("window.end", "HH:mm:ss").alias("end"),
        "sum",
    )


def run(lab: Lab) -> Iterator[str]:
    """Show the sums in three kinds of windows."""
    events = lab.stream("ts timestamp, value int", "events.json")
    for name, window in {
        "tumbling, 1 minute": F.window("ts", "1 minute"),
        "sliding, 2 minutes every minute": F.window("ts", "2 minutes", "1 minute"),
        "sliding, 1 minute every 30 seconds": F.window("ts", "1 minute", "30 seconds"),
    }.items():
        yield name
        yield from lab.batches(sums(events, window), "update", name)
