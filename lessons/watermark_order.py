"""Set the watermark before the aggregation: set after it, it has no effect.

The query counts clicks per user in windows of five minutes, with five minutes of lateness. Before
the aggregation, the watermark removes old state and drops late rows. After it, the watermark refers
to a column of the result, and in complete mode nothing is dropped.

Notice: The click of 10:00:30 is counted in the third batch, whose watermark is 10:00:20, and
dropped in the fourth, whose watermark is 10:05:10. With the watermark after the aggregation it
always counts, and the state only grows.
In production: Every job sets its watermark on the event time before it groups.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

SCHEMA = "user string, kind string, ts timestamp"


def clicks(events: DataFrame) -> DataFrame:
    """Return `start`, `user` and `clicks` per window; views only move the watermark."""
    grouped = events.groupBy(F.window("ts", "5 minutes"), "user")
    counted = grouped.agg(F.count_if(F.col("kind") == "click").alias("clicks")).where("clicks > 0")
    return counted.select(F.col("window.start").alias("start"), "user", "clicks")


def with_text_start(clicks: DataFrame) -> DataFrame:
    """Format the start of each window."""
    return clicks.withColumn("start", F.date_format("start", "HH:mm"))


def run(context: LessonContext) -> Iterator[str]:
    """Read the late click third and fourth, with the watermark before and after the count."""
    for name, files in {
        "third": ("1.json", "2.json", "late.json"),
        "fourth": ("1.json", "2.json", "view.json", "late.json"),
    }.items():
        events = context.stream(SCHEMA, *files, into=name)
        before = clicks(events.withWatermark("ts", "5 minutes"))
        after = clicks(events).withWatermark("start", "5 minutes")
        yield f"the late click comes {name}, watermark before the count"
        yield from context.run_batches(
            with_text_start(before), "update", f"{name} before", progress=True
        )
        yield f"the late click comes {name}, watermark after the count, complete mode"
        yield [
            *context.run_batches(with_text_start(after), "complete", f"{name} after", progress=True)
        ][-2]
