"""The same event twice: four ways to let it through once, and what each remembers.

By `guid` alone everything is remembered for ever. By `guid` and `eventTime` with a watermark on the time, the past
can be forgotten, but a copy whose time differs is taken for another event. `dropDuplicatesWithinWatermark` goes by
`guid`, and forgets it when the lateness has passed since its first copy.

Notice: The copy of 10:00:03 survives wherever the time is part of the key, and is removed within the watermark. Of
10:02:01, nothing comes through by `guid`: state is cleared at the end of a batch, so the third batch still knew it.
In the fourth it is forgotten, as it should be after so long; by `guid` alone it never is.
In production: `deduplicate` is the first of these with `--keep for-ever`, and the last by default, with 10 minutes.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.deduplicate import distinct_events
from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Deduplicate four files in each way."""
    events = lab.stream("event_id string, event_time timestamp", *(f"{at}.json" for at in range(1, 5)))
    both = ["event_id", "event_time"]
    ways = {
        "guid": distinct_events(events, None),
        "guid and eventTime": events.dropDuplicates(both),
        "guid and eventTime, watermark 10 s": events.withWatermark("event_time", "10 seconds").dropDuplicates(
            both
        ),
        "guid within the watermark of 10 s": distinct_events(events, "10 seconds"),
    }
    for name, rows in ways.items():
        yield name
        shown = rows.select(
            F.col("event_id").alias("guid"), F.date_format("event_time", "HH:mm:ss").alias("eventTime")
        )
        yield from lab.batches(shown, checkpoint=name, progress=True)
