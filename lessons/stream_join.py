"""Impressions joined with clicks: two streams, five join types, and when rows appear.

A click matches every impression of its ad within the hour before it. Spark keeps both streams as
state until the watermark says that no further match can come. Impressions may be two hours late and
clicks three; the query's watermark is the earlier of the two.

Notice: Matches appear immediately, in the batch of the later row. An impression without a click
appears when the watermark has passed the end of its hour, since a click may come until then. A
click without an impression appears when the watermark has passed the click. A last event on each
side (77 and 88) moves the watermark; those two are still waiting at the end. Both ends of the hour
are included: 11:00:00 matches, 11:05:01 does not. Ad 1 was shown twice, so the click of 11:00
matches both.
In production: `ad_attribution` joins by impression instead of ad, so a click counts once.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

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


def run(context: LessonContext) -> Iterator[str]:
    """Show the five joins, batch by batch."""
    impressions = context.stream(
        "impressionAdId int, impressionTime timestamp", "i1.json", "i2.json", "i3.json", into="i"
    )
    clicks = context.stream(
        "clickAdId int, clickTime timestamp", "c1.json", "c2.json", "c3.json", into="c"
    )
    for how in TYPES:
        joined = clicked(impressions, clicks, how)
        times = {
            name: F.date_format(name, "HH:mm:ss")
            for name in joined.columns
            if name.endswith("Time")
        }
        yield how
        yield from context.run_batches(joined.withColumns(times), checkpoint=how)
