"""Append, update, complete: what a batch writes, and which queries allow which mode.

Append writes rows that will never change. Update writes the rows that changed in this batch.
Complete writes the whole result again. A query without aggregation has no complete result to keep.
There update equals append, because no row ever changes.

Some texts say that append mode does not support aggregations. It does with a watermark, which says
when a count is final.

Notice: The watermark has to be on a column of the grouping; on another column it allows nothing.
Complete is also allowed there, but then no late row is ever dropped (lesson state_cleanup).
In production: `rack_temperature` runs in update mode, where a later record for a key replaces the
earlier one, or in append mode.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lessons.harness.context import LessonContext, outcomes


def run(context: LessonContext) -> Iterator[str]:
    """Start four queries in each mode, then run the filter in append and in update mode."""
    actions = context.stream("action string, ts timestamp", "actions.json", "more.json")
    queries = {
        "filter": actions.where("action = 'open'"),
        "count": actions.groupBy("action").count(),
        "count, watermark on another column": actions.withWatermark("ts", "1 minute")
        .groupBy("action")
        .count(),
        "count per ts, watermark on ts": actions.withWatermark("ts", "1 minute")
        .groupBy("ts")
        .count(),
    }

    def starting(rows: DataFrame, mode: str) -> Callable[[], StreamingQuery]:
        return rows.writeStream.outputMode(mode).format("noop").start

    for name, rows in queries.items():
        yield name
        modes = ("append", "update", "complete")
        yield outcomes([(mode, starting(rows, mode)) for mode in modes], start_only=True)
    append = [*context.run_batches(queries["filter"], "append", "append")]
    update = [*context.run_batches(queries["filter"], "update", "update")]
    yield "\n".join(["the filter in append mode", *append])
    yield f"update mode writes the same: {update == append}"
