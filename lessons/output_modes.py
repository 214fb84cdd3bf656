"""Append, update, complete: what a batch writes, and which queries allow which mode.

Append writes rows that will never change. Update writes the rows that changed in this batch.
Complete writes the whole result again. A query without aggregation has no complete result to keep.
There update equals append, because no row ever changes.

Some texts say that append mode does not support aggregations. It does with a watermark, which says
when a count is final.

Notice: The watermark has to be on a column of the grouping, or on the column of its window; on
another column it does not allow append. Look at the counts per window after the third file: update
writes only the new window, complete writes all three rows again, and append writes nothing yet. The
file moves the watermark past the first window, and Spark runs a batch without rows for it. There
append writes the counts of that window, which are final. Complete mode drops no late row and
removes no window (lesson state_cleanup).
In production: `rack_temperature` runs in update mode, where a later record for a key replaces the
earlier one, or in append mode.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lessons.harness.context import LessonContext, outcomes

MODES = ("append", "update", "complete")


def run(context: LessonContext) -> Iterator[str]:
    """Start four queries in each mode, then run a filter and a count in each allowed mode."""
    files = ("actions.json", "more.json", "later.json")
    actions = context.stream("action string, ts timestamp", *files)
    queries = {
        "filter": actions.where("action = 'open'"),
        "count": actions.groupBy("action").count(),
        "count, watermark on another column": actions.withWatermark("ts", "1 minute")
        .groupBy("action")
        .count(),
        "count per window, watermark on ts": actions.withWatermark("ts", "1 minute")
        .groupBy(F.window("ts", "10 minutes"), "action")
        .count(),
    }

    def starting(rows: DataFrame, mode: str) -> Callable[[], StreamingQuery]:
        return rows.writeStream.outputMode(mode).format("noop").start

    for name, rows in queries.items():
        yield name
        yield outcomes([(mode, starting(rows, mode)) for mode in MODES], start_only=True)
    append = [*context.run_batches(queries["filter"], "append", "filter append")]
    update = [*context.run_batches(queries["filter"], "update", "filter update")]
    yield "\n".join(["the filter in append mode", *append])
    yield f"update mode writes the same: {update == append}"
    start = F.date_format("window.start", "HH:mm").alias("start")
    counts = queries["count per window, watermark on ts"].select(start, "action", "count")
    for mode in MODES:
        yield f"the count per window in {mode} mode"
        yield from context.run_batches(counts, mode, f"count {mode}")
