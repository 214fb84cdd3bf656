"""Four ways to deduplicate events by `guid` and `eventTime`, and what each keeps in state.

By `guid` alone, or with `eventTime` but without a watermark, Spark keeps every id for ever. By
`guid` and `eventTime` with a watermark, old ids are removed, but a copy with another time counts as
another event. `dropDuplicatesWithinWatermark` compares only `guid`. It forgets a `guid` once the
watermark is later than its first copy by the lateness.

Notice: The copy of 10:00:03 comes through wherever the time is part of the key, and is removed
within the watermark. With `guid` within the watermark, the copy of 10:02:01 is removed too: expired
ids leave only at the end of a batch, so the third batch still had it. In the fourth batch the id
has expired, as intended; by `guid` alone it never expires.
In production: `deduplicate --state-retention unbounded` is the first of these, by `event_id`. The
default is the last, with 10 minutes of `event_time`.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Deduplicate four files in each way."""
    events = context.stream(
        "guid string, eventTime timestamp", *(f"{number}.json" for number in range(1, 5))
    )
    watermarked = events.withWatermark("eventTime", "10 seconds")
    queries = {
        "guid": events.dropDuplicates(["guid"]),
        "guid and eventTime": events.dropDuplicates(["guid", "eventTime"]),
        "guid and eventTime, watermark 10 s": watermarked.dropDuplicates(["guid", "eventTime"]),
        "guid within the watermark of 10 s": watermarked.dropDuplicatesWithinWatermark(["guid"]),
    }
    for name, rows in queries.items():
        yield name
        shown = rows.select("guid", F.date_format("eventTime", "HH:mm:ss").alias("eventTime"))
        yield from context.run_batches(shown, checkpoint=name, progress=True)
