"""Counts per action and hour: once over a table, once over the same data as a stream; they are the same.

7,356 events of 26 July 2016 lie in files. A table of all of them is counted at once; then the same function counts
them as a stream, a file at a time, into the memory table `counts`.

Notice: The function does not know which of the two it is given. That is what makes a streaming query testable.
In production: `action_counts` is this very function. The tests of the jobs call the job's function on ten rows, and
on a real topic's contents.
"""

import csv
import json
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.action_counts import action_counts
from spark_jobs.lessons.frame.lab import Lab, finish, table

SCHEMA = "time timestamp, action string"
FILES = 5


def counts_per_hour(actions: DataFrame) -> DataFrame:
    """Return the job's counts from `time` and `action`."""
    return action_counts(
        actions.withColumnRenamed("time", "event_time"), "action", "1 hour", None, "10 minutes"
    )


def by_hour(counts: DataFrame) -> str:
    """Return the counts as text, in order."""
    hour = F.date_format("window_start", "MMM-dd HH:mm").alias("hour")
    return table(counts.select(hour, "action", F.col("action_count").alias("count")))


def run(lab: Lab) -> Iterator[str]:
    """Write the events, mixed, into five files; count them both ways."""
    events = []
    with (lab.data / "events_per_hour.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            count = int(row["events"])
            for at in range(count):
                second = at * 3600 // count
                time = f"2016-07-26T{int(row['hour']):02d}:{second // 60:02d}:{second % 60:02d}Z"
                events.append(json.dumps({"time": time, "action": row["action"]}))
    for number in range(FILES):
        lab.write("\n".join(events[number::FILES]), f"input/{number}.json")
    static = counts_per_hour(lab.spark.read.schema(SCHEMA).json(lab.path("input")))
    yield f"{len(events)} events as a table\n{by_hour(static)}"
    streamed = counts_per_hour(lab.stream(SCHEMA)).writeStream.outputMode("complete").format("memory")
    query = streamed.queryName("counts").trigger(availableNow=True).start()
    finish(query)
    same = by_hour(lab.spark.table("counts")) == by_hour(static)
    yield f"as a stream of {len(query.recentProgress)} batches: the same: {same}"
