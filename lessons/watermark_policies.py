"""Several watermarks in one query: it uses the slowest, or with policy `max` the fastest.

Each stream's watermark is its own newest event time minus its own lateness.
`spark.sql.streaming.multipleWatermarkPolicy` is `min`, which loses no row of the slower stream, or
`max`, which waits for no stream.

Notice: 10:30 minus ten minutes is 10:20, and 10:10 minus five is 10:05. Under `max`, the window of
10:10 is closed already when the click of 10:12 comes, so the click is dropped; under `min` it
counts. A stream without new events holds `min` back for ever.
In production: `ad_attribution` uses `min` by default. With `--watermark-policy max` it would lose
what the slower topic still delivers.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, progress_table, started

SCHEMA = "ad string, ts timestamp"


def run(context: LessonContext) -> Iterator[str]:
    """Count the union of two streams under both policies, then add a click of 10:12."""
    for policy in ("min", "max"):
        context.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
        impressions = context.stream(SCHEMA, "impressions.json", into=f"{policy}/impressions")
        clicks = context.stream(SCHEMA, "clicks.json", into=f"{policy}/clicks")
        both = impressions.withWatermark("ts", "10 minutes").union(
            clicks.withWatermark("ts", "5 minutes")
        )
        counts = both.groupBy(F.window("ts", "5 minutes")).count()
        rows = counts.select(F.date_format("window.start", "HH:mm").alias("start"), "count")
        collector = BatchCollector()
        with started(rows.writeStream.outputMode("update").foreachBatch(collector)) as query:
            query.processAllAvailable()
            context.add_file(
                '{"ad": "ad2", "ts": "2018-03-02T10:12:00Z"}', f"{policy}/clicks/2.json"
            )
            query.processAllAvailable()
            yield f"{policy}\n{collector.take()}\n{progress_table(query)}"
