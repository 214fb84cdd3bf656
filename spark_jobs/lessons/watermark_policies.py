"""Several streams, several watermarks: the query has one, the slowest stream's, or the fastest's if you say so.

Each stream's watermark is its own newest time minus its own lateness. `spark.sql.streaming.multipleWatermarkPolicy`
takes the `min` of them, so that nothing of the slower stream is lost, or the `max`, so that nobody waits for it.

Notice: 10:30 minus ten minutes is 10:20, 10:10 minus five is 10:05. Under `max`, the next click of 10:12 is late, and
its window is dropped; under `min` it counts. A stream that falls silent holds `min` back for ever.
In production: `ad_attribution` takes `min`: a click's impression may be hours old.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Batches, Lab, progress_table, started

SCHEMA = "ad string, ts timestamp"


def run(lab: Lab) -> Iterator[str]:
    """Count the union of two streams under both policies, then let a click of 10:12 come."""
    for policy in ("min", "max"):
        lab.spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", policy)
        impressions = lab.stream(SCHEMA, "impressions.json", into=f"{policy}/impressions")
        clicks = lab.stream(SCHEMA, "clicks.json", into=f"{policy}/clicks")
        both = impressions.withWatermark("ts", "10 minutes").union(clicks.withWatermark("ts", "5 minutes"))
        counts = both.groupBy(F.window("ts", "5 minutes")).count()
        rows = counts.select(F.date_format("window.start", "HH:mm").alias("start"), "count")
        shown = Batches()
        with started(rows.writeStream.outputMode("update").foreachBatch(shown)) as query:
            query.processAllAvailable()
            lab.write('{"ad": "ad2", "ts": "2018-03-02T10:12:00Z"}', f"{policy}/clicks/2.json")
            query.processAllAvailable()
            yield f"{policy}\n{shown.new()}\n{progress_table(query)}"
