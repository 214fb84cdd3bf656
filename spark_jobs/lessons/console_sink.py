"""The console sink, with counts of actions per ten minutes in complete mode.

The console shows each batch as a table. It is for looking, so it is written by the driver, and all rows of the batch
go there. In complete mode the result may be sorted, since all of it is there.

Notice: 10:10 open 2, 10:00 close 6, 10:00 open 8: the order is that of `orderBy`, and without it there would be none.
In production: `action_counts` is this very function; it writes to a topic, by default in update mode.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.action_counts import action_counts
from spark_jobs.lessons.frame.lab import Lab, finish


def run(lab: Lab) -> Iterator[str]:
    """Show the counts on the console."""
    actions = lab.stream("id long, action string, event_time timestamp", "actions.json")
    counts = action_counts(actions, "action", "10 minutes", None, "10 minutes").orderBy("action_count")
    window = F.struct("window_start", "window_end").alias("window")
    counts = counts.select(window, "action", F.col("action_count").alias("count"))
    console = counts.writeStream.outputMode("complete").format("console").option("truncate", False)
    finish(console.trigger(availableNow=True).start())
    yield lab.console()
