"""Late rows: when a watermark drops a row, and when the row still counts.

The watermark is the newest event time minus the allowed lateness. It moves after a batch and
applies to the next one, which may be an empty batch that Spark runs for this purpose. A row is late
when its window ends at or before the watermark.

Notice: The row of 10:11:35 is dropped when an empty batch ran in between. It counts when both files
are in one batch. With `--trigger available-now` and one file per batch it counts, too: no empty
batch runs in between, and Spark compares rows with the watermark of the previous batch. A watermark
guarantees that rows within it count; it does not guarantee that later rows are dropped.
In production: `action_counts` is this function. The producer marks rows later than the watermark as
`either`, since Spark guarantees neither result.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, progress_table, started
from spark_jobs.clickstream.action_counts import action_counts

SCHEMA = "action string, event_time timestamp"


def counts(actions: DataFrame) -> DataFrame:
    """Return `start`, `action` and `count` per ten minutes, with ten minutes of lateness."""
    windows = action_counts(actions, "action", "10 minutes", None, "10 minutes")
    start = F.date_format("window_start", "HH:mm").alias("start")
    return windows.select(start, "action", F.col("action_count").alias("count"))


def run(context: LessonContext) -> Iterator[str]:
    """Read the files one after the other, then both at once."""
    one_by_one = context.stream(SCHEMA, "1.json", into="one_by_one")
    collector = BatchCollector()
    with started(
        counts(one_by_one).writeStream.outputMode("update").foreachBatch(collector)
    ) as query:
        query.processAllAvailable()
        context.add_files("2.json", into="one_by_one")
        query.processAllAvailable()
        yield f"the second file arrives later\n{collector.take()}\n{progress_table(query)}"
    folder = context.add_files("1.json", "2.json", into="both")
    together = context.spark.readStream.schema(SCHEMA).json(folder)
    yield "both files in one batch"
    yield from context.run_batches(counts(together), "update", "together", progress=True)
    yield "both files present, one per batch"
    yield from context.run_batches(
        counts(context.stream(SCHEMA, into="both")), "update", "in turn", progress=True
    )
