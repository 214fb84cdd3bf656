"""Late rows: a watermark drops what comes too late, but one batch later than one would think.

The watermark is the newest event time so far minus the lateness that is allowed. It moves after a batch and counts in
the next, which may be an empty one that is run for just that. A row is late when its window ends at or before it.

Notice: The row of 10:11:35 is dropped when an empty batch ran in between. It counts when both files are there at once
(one batch), and also under available-now one file a batch: there no empty batch lies in between, and rows are
compared with the watermark of the batch before. A watermark promises to keep, never to drop.
In production: `action_counts` is this function. The producer marks what is later than the watermark as `either`,
since Spark promises neither result.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.action_counts import action_counts
from spark_jobs.lessons.frame.lab import Batches, Lab, progress_table, started

SCHEMA = "action string, event_time timestamp"


def counts(actions: DataFrame) -> DataFrame:
    """Return `start`, `action` and `count` in windows of ten minutes, with ten minutes of lateness."""
    windows = action_counts(actions, "action", "10 minutes", None, "10 minutes")
    start = F.date_format("window_start", "HH:mm").alias("start")
    return windows.select(start, "action", F.col("action_count").alias("count"))


def run(lab: Lab) -> Iterator[str]:
    """Let the files arrive one after the other, then find both there."""
    one_by_one = lab.stream(SCHEMA, "1.json", into="one_by_one")
    shown = Batches()
    with started(counts(one_by_one).writeStream.outputMode("update").foreachBatch(shown)) as query:
        query.processAllAvailable()
        lab.arrive("2.json", into="one_by_one")
        query.processAllAvailable()
        yield f"the second file arrives later\n{shown.new()}\n{progress_table(query)}"
    folder = lab.arrive("1.json", "2.json", into="both")
    together = lab.spark.readStream.schema(SCHEMA).json(folder)
    yield "both files in one batch"
    yield from lab.batches(counts(together), "update", "together", progress=True)
    yield "both files there, one a batch"
    yield from lab.batches(counts(lab.stream(SCHEMA, into="both")), "update", "in turn", progress=True)
