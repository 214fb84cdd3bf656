"""Four ways to deduplicate events, and what each keeps in state.

By `guid` alone, Spark keeps every id for ever. By `guid` and `eventTime` with a watermark, old ids
are removed, but a copy with another time counts as another event. `dropDuplicatesWithinWatermark`
compares `guid` only, and removes it when the lateness has passed since its first copy.

Notice: The copy of 10:00:03 comes through wherever the time is part of the key, and is removed
within the watermark. With `guid` within the watermark, the copy of 10:02:01 is removed too: expired
ids leave only at the end of a batch, so the third batch still had it. In the fourth batch the id
has expired, as intended; by `guid` alone it never expires.
In production: `deduplicate --state-retention unbounded` is the first of these. The default is the
last, with 10 minutes.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext
from spark_jobs.storage.deduplicate import distinct_events


def run(context: LessonContext) -> Iterator[str]:
    """Deduplicate four files in each way."""
    events = context.stream(
        "event_id string, event_time timestamp", *(f"{number}.json" for number in range(1, 5))
    )
    both = ["event_id", "event_time"]
    queries = {
        "guid": distinct_events(events, None),
        "guid and eventTime": events.dropDuplicates(both),
        "guid and eventTime, watermark 10 s": events.withWatermark(
            "event_time", "10 seconds"
        ).dropDuplicates(both),
        "guid within the watermark of 10 s": distinct_events(events, "10 seconds"),
    }
    for name, rows in queries.items():
        yield name
        shown = rows.select(
            F.col("event_id").alias("guid"),
            F.date_format("event_time", "HH:mm:ss").alias("eventTime"),
        )
        yield from context.run_batches(shown, checkpoint=name, progress=True)
