"""Append, update, complete: what a batch gives to its sink, and which query may use which.

Append gives rows that will never change. Update gives the rows that changed in this batch. Complete gives the whole
result anew. So a query without aggregation has no complete result to keep, and a count can append only when something
says that it will not change any more: a watermark.

Notice: A watermark is what makes append possible for a count. Complete is possible there too, but then nothing is
ever dropped (lesson state_cleanup).
In production: `rack_temperature` runs in update, where a later record for a key replaces the earlier, or in append.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.lessons.frame.lab import Lab, outcomes


def run(lab: Lab) -> Iterator[str]:
    """Start three kinds of query in each mode."""
    actions = lab.stream("action string, ts timestamp", "actions.json")
    queries = {
        "filter": actions.where("action = 'open'"),
        "count": actions.groupBy("action").count(),
        "count, watermark on another column": actions.withWatermark("ts", "1 minute")
        .groupBy("action")
        .count(),
        "count per time, watermark on it": actions.withWatermark("ts", "1 minute").groupBy("ts").count(),
    }

    def starting(rows: DataFrame, mode: str) -> Callable[[], StreamingQuery]:
        return rows.writeStream.outputMode(mode).format("noop").start

    for name, rows in queries.items():
        yield name
        modes = ("append", "update", "complete")
        yield outcomes([(mode, starting(rows, mode)) for mode in modes], start_only=True)
