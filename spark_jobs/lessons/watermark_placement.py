"""Where a watermark has to stand, what it allows, and what one wrong clock does to it.

It must be on the column that is grouped by, or its window, and before the grouping. Then append is allowed, and in
append mode a second aggregation over the first one's windows too: a window that is over never changes again.

Notice: rack2's clock is a year ahead. After its reading every other reading is late, for a year, without an error.
In production: A reading that lies more than 5 minutes ahead of the time at which Kafka received it becomes a dead
letter, so that one wrong clock cannot make all others late.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, outcomes


def run(lab: Lab) -> Iterator[str]:
    """Try watermarks in several places, a second aggregation, and a reading from the future."""
    readings = lab.stream("rack string, ts timestamp, seen timestamp", "1.json", "2.json", "3.json")
    ten = F.window("ts", "10 minutes")
    on_ts = readings.withWatermark("ts", "10 minutes")
    per_rack = on_ts.groupBy(ten, "rack").count()
    places = {
        "on the grouped column": per_rack,
        "on another column": readings.withWatermark("seen", "10 minutes").groupBy(ten, "rack").count(),
        "after the grouping": readings.groupBy(ten, "rack")
        .count()
        .select("*", "window.start")
        .withWatermark("start", "10 minutes"),
        "on the column, grouped by rack alone": on_ts.groupBy("rack").count(),
    }
    yield "append mode, watermark"
    yield outcomes((name, rows.writeStream.format("noop").start) for name, rows in places.items())
    racks_per_hour = per_rack.groupBy(F.window(F.window_time("window"), "1 hour")).count()
    yield "a second aggregation over the first"
    yield outcomes(
        (mode, racks_per_hour.writeStream.outputMode(mode).format("noop").start)
        for mode in ("append", "update", "complete")
    )
    yield "a reading of 2019 in the first file"
    start = F.date_format("window.start", "yyyy-MM-dd HH:mm").alias("start")
    yield from lab.batches(per_rack.select(start, "rack", "count"), "update", progress=True)
