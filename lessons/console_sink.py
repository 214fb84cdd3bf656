"""The console sink prints each batch: action counts per ten minutes, in complete mode.

The driver prints each batch as a table, so all rows of the batch are sent to the driver. In
complete mode the result can be sorted, because all of it is present. A stream without aggregation
is printed in append mode: each batch has its own rows only. `numRows` (20 by default) limits what
is printed of a batch.

Notice: 10:10 open 2, 10:00 close 6, 10:00 open 8: `orderBy` makes this order. Without it the order
is undefined.
In production: `action_counts` is this function. It writes to a topic, in update mode by default.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end
from spark_jobs.clickstream.action_counts import action_counts


def run(context: LessonContext) -> Iterator[str]:
    """Show the counts on the console, then the actions themselves."""
    actions = context.stream("id long, action string, event_time timestamp", "actions.json")
    counts = action_counts(actions, "action", "10 minutes", None, "10 minutes").orderBy(
        "action_count"
    )
    window = F.struct("window_start", "window_end").alias("window")
    counts = counts.select(window, "action", F.col("action_count").alias("count"))
    console = counts.writeStream.outputMode("complete").format("console").option("truncate", False)
    await_end(console.trigger(availableNow=True).start())
    yield context.console_output()
    rows = actions.select("id", "action", "event_time").writeStream.format("console")
    await_end(rows.option("numRows", 3).trigger(availableNow=True).start())
    yield context.console_output()
