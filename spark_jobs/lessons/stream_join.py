"""Impressions joined with their clicks: two streams, five kinds of join, and when each row appears.

A click belongs to every impression of its ad that lies at most an hour before it. Both streams are kept as state
until the watermarks (two hours for impressions, three for clicks) say that nothing can come any more that would
match.

Notice: Pairs appear at once, in the batch of the later row. The rows without a partner appear only when the watermark
has passed their time, so a last event on each side (77 and 88) has to push it; those two are still waiting at the
end. Both ends of the hour belong to it: 11:00:00 joins, 11:05:01 does not. Ad 1 was shown twice, so the click of
11:00 counts for both.
In production: `ad_attribution` joins by impression instead of ad, so that a click counts once.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab

TYPES = ("inner", "left_outer", "right_outer", "full_outer", "left_semi")


def clicked(impressions: DataFrame, clicks: DataFrame, how: str) -> DataFrame:
    """Return impressions with clicks on the same ad within an hour."""
    return impressions.withWatermark("impressionTime", "2 hours").join(
        clicks.withWatermark("clickTime", "3 hours"),
        on=F.expr(
            "clickAdId = impressionAdId"
            " AND clickTime BETWEEN impressionTime AND impressionTime + INTERVAL 1 hour"
        ),
        how=how,
    )


def run(lab: Lab) -> Iterator[str]:
    """Show the five joins batch by batch."""
    impressions = lab.stream(
        "impressionAdId int, impressionTime timestamp", "i1.json", "i2.json", "i3.json", into="i"
    )
    clicks = lab.stream("clickAdId int, clickTime timestamp", "c1.json", "c2.json", "c3.json", into="c")
    for how in TYPES:
        joined = clicked(impressions, clicks, how)
        times = {name: F.date_format(name, "HH:mm:ss") for name in joined.columns if name.endswith("Time")}
        yield how
        yield from lab.batches(joined.withColumns(times), checkpoint=how)
