"""The same event twice: four ways to let it through once, and what each remembers.

By `guid` alone everything is remembered for ever. By `guid` and `eventTime` with a watermark on the time, the past can
be forgotten, but a copy whose time differs is taken for another event. `dropDuplicatesWithinWatermark` goes by `guid`,
and forgets it when the lateness has passed since its first copy.

Notice: The copy of 10:00:03 survives wherever the time is part of the key, and is removed within the watermark. Of
10:02:01, nothing comes through by `guid`: state is cleared at the end of a batch, so the third batch still knew it. In
the fourth it is forgotten, as it should be after so long; by `guid` alone it never is.
In production: `deduplicate` goes by `event_id` within the watermark.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Deduplicate four files in each way."""
    events = lab.stream("guid string, eventTime timestamp", *(f"{at}.json" for at in range(1, 5)))
    late = events.withWatermark("eventTime", "10 seconds")
    ways = {
        "guid": events.dropDuplicates(["guid"]),
        "guid and eventTime": events.dropDuplicates(["guid", "eventTime"]),
        "guid and eventTime, watermark 10 s": late.dropDuplicates(["guid", "eventTime"]),
        "guid within the watermark of 10 s": late.dropDuplicatesWithinWatermark(["guid"]),
    }
    for name, rows in ways.items():
        yield name
        shown = rows.select("guid", F.date_format("eventTime", "HH:mm:ss").alias("eventTime"))
        yield from lab.batches(shown, checkpoint=name, progress=True)
