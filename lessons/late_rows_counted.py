"""Spark's count of dropped rows is a lower bound.

`numRowsDroppedByWatermark` is counted after the partial aggregation, which has already merged all
rows of a group in a task into one. An operator that receives the rows themselves, such as a
deduplication, counts rows. To count rows before an aggregation, use `observe` on the event times.

Notice: 10,000 rows of 2,784 racks were late, and Spark reports 2,784. Counted before the
aggregation, as `action_counts` does, there are 10,000. The deduplication reports 10,000 too.
In production: `action_counts` counts late records this way. Jobs that remove duplicates first, such
as `user_totals`, take the number that the deduplication reports. `--progress` writes either for
each batch. `rack_temperature` does neither, so it has no number.
"""

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame

from lessons.harness.context import LessonContext, progress_table, started
from spark_jobs.clickstream.action_counts import action_counts
from spark_jobs.runtime.late_records import late_records, observe_event_times
from spark_jobs.storage.deduplicate import distinct_events


def run(context: LessonContext) -> Iterator[str]:
    """Send a reading that moves the watermark, then 10,000 late ones, to two queries."""
    plan = json.loads((context.data / "plan.json").read_bytes())
    folder = context.add_files()
    context.add_file(_lines(plan["newest"], 1, plan["racks"]), "input/1.json")
    schema = "event_id string, action string, event_time timestamp"
    readings = context.spark.readStream.schema(schema).json(folder)
    counted = observe_event_times(readings, "1 hour")
    queries: dict[str, DataFrame] = {
        "count": action_counts(counted, "action", "1 hour", None, "10 minutes"),
        "deduplication": distinct_events(readings, "10 minutes"),
    }
    with (
        started(queries["count"].writeStream.outputMode("update").format("noop")) as count,
        started(queries["deduplication"].writeStream.format("noop")) as deduplication,
    ):
        running = {"count per rack and hour": count, "deduplication": deduplication}
        for query in running.values():
            query.processAllAvailable()
        context.add_file(_lines(plan["late"], plan["late_rows"], plan["racks"]), "input/2.json")
        for name, query in running.items():
            query.processAllAvailable()
            *_, before, last = (json.loads(batch.json) for batch in query.recentProgress)
            late = late_records(last, before["eventTime"]["watermark"])
            yield f"{name}: {late} rows were late\n{progress_table(query)}"


def _lines(event_time: str, count: int, racks: int) -> str:
    rows = (
        {"event_id": str(number), "action": f"rack{number % racks}", "event_time": event_time}
        for number in range(count)
    )
    return "\n".join(map(json.dumps, rows))
