"""How many rows were lost? The figure that Spark reports is a lower bound.

`numRowsDroppedByWatermark` counts where late rows are dropped: after the partial aggregation, in which all rows of a
group in a task have become one. An operator that is handed the rows themselves, such as a deduplication, counts rows.
Before an aggregation one has to count oneself: `observe` takes the event times along into the progress.

Notice: 10,000 rows of 2,784 racks came too late, and 2,784 are reported. Counted before the aggregation, as the jobs
do, there are 10,000; so there are where repeats are removed.
In production: `spark_jobs/late.py` is the counting; the figure of each batch goes to `--progress`.
"""

import json
from collections.abc import Iterator

from pyspark.sql import DataFrame

from spark_jobs.action_counts import action_counts
from spark_jobs.deduplicate import distinct_events
from spark_jobs.late import late_records, with_event_times_counted
from spark_jobs.lessons.frame.lab import Lab, progress_table, started


def run(lab: Lab) -> Iterator[str]:
    """Send one reading that moves the watermark, then 10,000 that are late, to a count and to a deduplication."""
    plan = json.loads((lab.data / "plan.json").read_bytes())
    folder = lab.arrive()
    lab.write(_lines(plan["newest"], 1, plan["racks"]), "input/1.json")
    schema = "event_id string, action string, event_time timestamp"
    readings = lab.spark.readStream.schema(schema).json(folder)
    counted = with_event_times_counted(readings, "1 hour")
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
        lab.write(_lines(plan["late"], plan["late_rows"], plan["racks"]), "input/2.json")
        for name, query in running.items():
            query.processAllAvailable()
            *_, before, last = (json.loads(batch.json) for batch in query.recentProgress)
            late = late_records(last, before["eventTime"]["watermark"])
            yield f"{name}: {late} rows were late\n{progress_table(query)}"


def _lines(event_time: str, count: int, racks: int) -> str:
    rows = (
        {"event_id": str(at), "action": f"rack{at % racks}", "event_time": event_time} for at in range(count)
    )
    return "\n".join(map(json.dumps, rows))
