"""The console sink, with counts of actions per ten minutes in complete mode.

The console shows each batch as a table. It is for looking, so it is written by the driver, and all rows of the batch
go there. In complete mode the result may be sorted, since all of it is there.

Notice: 10:10 open 2, 10:00 close 6, 10:00 open 8: the order is that of `orderBy`, and without it there would be none.
In production: `action_counts` counts in the same windows, in update mode, to a topic.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish


def counts_per_ten_minutes(actions: DataFrame) -> DataFrame:
    """Return `window`, `action` and `count` from `action` and `ts`."""
    return actions.groupBy(F.window("ts", "10 minutes"), "action").count()


def run(lab: Lab) -> Iterator[str]:
    """Show the counts on the console."""
    actions = lab.stream("id long, action string, ts timestamp", "actions.json")
    counts = counts_per_ten_minutes(actions).orderBy("count")
    console = counts.writeStream.outputMode("complete").format("console").option("truncate", False)
    finish(console.trigger(availableNow=True).start())
    yield lab.console()
