"""Counts per action and hour: a batch query and a streaming query give the same result.

7,356 events of 26 July 2016 are stored in files. The lesson counts them first as a static table,
then with the same function as a stream, one file per batch, into the memory table `counts`.

Notice: The function does not know whether its input is a table or a stream. That makes a streaming
query testable.
In production: `action_counts` is this function. The tests of the jobs call the job's function with
ten rows and with the contents of a real topic.
"""

import csv
import json
from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table
from spark_jobs.clickstream.action_counts import action_counts

SCHEMA = "time timestamp, action string"
FILES = 5


def counts_per_hour(actions: DataFrame) -> DataFrame:
    """Return the counts per hour, from `time` and `action`."""
    return action_counts(
        actions.withColumnRenamed("time", "event_time"), "action", "1 hour", None, "10 minutes"
    )


def format_counts(counts: DataFrame) -> str:
    """Format the counts per hour."""
    hour = F.date_format("window_start", "MMM-dd HH:mm").alias("hour")
    return format_table(counts.select(hour, "action", F.col("action_count").alias("count")))


def run(context: LessonContext) -> Iterator[str]:
    """Write the events, mixed, into five files; count them as a table and as a stream."""
    events = []
    with (context.data / "events_per_hour.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            count = int(row["events"])
            for i in range(count):
                second = i * 3600 // count
                time = f"2016-07-26T{int(row['hour']):02d}:{second // 60:02d}:{second % 60:02d}Z"
                events.append(json.dumps({"time": time, "action": row["action"]}))
    for number in range(FILES):
        context.add_file("\n".join(events[number::FILES]), f"input/{number}.json")
    static = counts_per_hour(context.spark.read.schema(SCHEMA).json(context.path("input")))
    yield f"{len(events)} events as a table\n{format_counts(static)}"
    streamed = (
        counts_per_hour(context.stream(SCHEMA)).writeStream.outputMode("complete").format("memory")
    )
    query = streamed.queryName("counts").trigger(availableNow=True).start()
    await_end(query)
    same = format_counts(context.spark.table("counts")) == format_counts(static)
    yield f"as a stream of {len(query.recentProgress)} batches: the same: {same}"
