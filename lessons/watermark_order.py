"""Set the watermark before the aggregation: set after it, it has no effect.

The query counts clicks per user in windows of five minutes, with five minutes of lateness. Before
the aggregation, the watermark removes old state and drops late rows. After it, as in some published
programs, the watermark refers to a column of the result, and in complete mode nothing is dropped.

Notice: The window of the click of 10:00:30 ends at 10:05. Late rows are compared with the watermark
of the previous batch (lesson late_rows). For the third batch that is 10:00:20, so the click counts.
For the fourth it is 10:05:10, so the click is dropped. With the watermark after the aggregation the
click always counts, every batch writes all windows, and the state only grows. Position and mode
change together here; lesson state_cleanup shows the effect of the mode alone.
In production: `action_counts`, like every event-time job, sets its watermark before it groups.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

SCHEMA = "user string, ts timestamp"


def clicks_per_window(clicks: DataFrame) -> DataFrame:
    """Return `start`, `user` and `clicks` per window of five minutes."""
    counted = clicks.groupBy(F.window("ts", "5 minutes"), "user").agg(F.count("*").alias("clicks"))
    return counted.select(F.col("window.start").alias("start"), "user", "clicks")


def with_text_start(counted: DataFrame) -> DataFrame:
    """Format the start of each window."""
    return counted.withColumn("start", F.date_format("start", "HH:mm"))


def run(context: LessonContext) -> Iterator[str]:
    """Read the late click third and fourth, with the watermark before and after the count."""
    for name, files in {
        "third": ("1.json", "2.json", "late.json"),
        "fourth": ("1.json", "2.json", "3.json", "late.json"),
    }.items():
        clicks = context.stream(SCHEMA, *files, into=name)
        before = clicks_per_window(clicks.withWatermark("ts", "5 minutes"))
        after = clicks_per_window(clicks).withWatermark("start", "5 minutes")
        for title, counted, mode in (
            ("before the count, update mode", before, "update"),
            ("after the count, complete mode", after, "complete"),
        ):
            yield f"the late click comes {name}, watermark {title}"
            yield from context.run_batches(
                with_text_start(counted), mode, f"{name} {mode}", progress=True
            )
