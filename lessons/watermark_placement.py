"""Where a watermark belongs, what it allows, and what one wrong clock does to it.

The watermark must be on the grouped column, or on the column of its window, and before the
aggregation. Append mode is then allowed. In append mode a second aggregation over the windows is
allowed too, because a closed window never changes.

Notice: The clock of rack2 is a year ahead, and its reading moves the watermark to 2019. The next
batch still counts a reading of rack1, because rows are compared with the watermark of the previous
batch (lesson late_rows), and then removes that window. From then on Spark drops the readings of all
correct clocks, for a year and without an error.
In production: `rack_temperature` leaves out a reading more than 5 minutes ahead of its Kafka append
time, and `dead_letters` reports it. So one wrong clock cannot make all other readings late.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, outcomes


def run(context: LessonContext) -> Iterator[str]:
    """Try watermarks in several places, a second aggregation, and a future reading."""
    readings = context.stream(
        "rack string, ts timestamp, seen timestamp", "1.json", "2.json", "3.json"
    )
    ten_minutes = F.window("ts", "10 minutes")
    on_ts = readings.withWatermark("ts", "10 minutes")
    per_rack = on_ts.groupBy(ten_minutes, "rack").count()
    queries = {
        "on the grouped column": per_rack,
        "on another column": readings.withWatermark("seen", "10 minutes")
        .groupBy(ten_minutes, "rack")
        .count(),
        "after the grouping": readings.groupBy(ten_minutes, "rack")
        .count()
        .select("*", "window.start")
        .withWatermark("start", "10 minutes"),
        "on the column, grouped by rack alone": on_ts.groupBy("rack").count(),
    }
    yield "append mode, watermark"
    yield outcomes((name, rows.writeStream.format("noop").start) for name, rows in queries.items())
    racks_per_hour = per_rack.groupBy(F.window(F.window_time("window"), "1 hour")).count()
    yield "a second aggregation over the first"
    yield outcomes(
        (mode, racks_per_hour.writeStream.outputMode(mode).format("noop").start)
        for mode in ("append", "update", "complete")
    )
    yield "a reading of 2019 in the first file"
    start = F.date_format("window.start", "yyyy-MM-dd HH:mm").alias("start")
    yield from context.run_batches(per_rack.select(start, "rack", "count"), "update", progress=True)
