"""The watermark belongs before the count: set after it, it is only decoration.

Clicks per user in windows of five minutes, with five minutes of lateness. Before the count, the watermark lets state
go and drops late rows. After the count it is set on a column of the result, and in complete mode nothing is dropped.

Notice: The click of 10:00:30 is counted in the third batch, where rows are held against 10:00:20, and dropped in the
fourth, against 10:05:10. With the watermark after the count it counts in either, and the state only grows.
In production: Every job sets its watermark on the event time, before it groups.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab

SCHEMA = "user string, kind string, ts timestamp"


def clicks(events: DataFrame) -> DataFrame:
    """Return `start`, `user` and `clicks` per window; views move the watermark, but do not count."""
    grouped = events.groupBy(F.window("ts", "5 minutes"), "user")
    counted = grouped.agg(F.count_if(F.col("kind") == "click").alias("clicks")).where("clicks > 0")
    return counted.select(F.col("window.start").alias("start"), "user", "clicks")


def shown(clicks: DataFrame) -> DataFrame:
    """Return the windows' starts as text."""
    return clicks.withColumn("start", F.date_format("start", "HH:mm"))


def run(lab: Lab) -> Iterator[str]:
    """Let the late click come third and fourth, with the watermark before and after the count."""
    for name, files in {
        "third": ("1.json", "2.json", "late.json"),
        "fourth": ("1.json", "2.json", "view.json", "late.json"),
    }.items():
        events = lab.stream(SCHEMA, *files, into=name)
        before = clicks(events.withWatermark("ts", "5 minutes"))
        after = clicks(events).withWatermark("start", "5 minutes")
        yield f"the late click comes {name}, watermark before the count"
        yield from lab.batches(shown(before), "update", f"{name} before", progress=True)
        yield f"the late click comes {name}, watermark after the count, complete mode"
        yield [*lab.batches(shown(after), "complete", f"{name} after", progress=True)][-2]
