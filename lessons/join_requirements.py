"""What a stream-stream join requires: watermarks and a time bound, by join type.

An inner join is allowed without them, but then keeps all rows for ever. An outer join and a left
semi join are refused unless Spark can tell when no match can come any more. One of two forms is
enough:

- A join key is an event time, or a window of it, and has a watermark.
- A range condition bounds the time of one row by the time of its match, and the side that may still
  bring a match has a watermark: for a left outer or left semi join, the right side.

Watermarks on both sides are better: without the second one, the state of one side grows without
limit. A left anti join with a stream on the right is never allowed; keep the unmatched rows of a
left outer join instead.

Notice: A left outer and a left semi join wait for clicks, so they require the watermark of the
clicks. For a full outer join, Spark is satisfied with the watermark of either side. Update mode is
allowed only for joins without unmatched rows; complete mode is never allowed.
In production: `ad_attribution` is a left outer join with both watermarks and a bound of one hour.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, format_cells, outcome

TYPES = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
KEY = "clickAdId = impressionAdId"
SAME_TIME = f"{KEY} AND clickTime = impressionTime"
BOUND = f"{KEY} AND clickTime BETWEEN impressionTime AND impressionTime + INTERVAL 1 hour"


def run(context: LessonContext) -> Iterator[str]:
    """Start each join type with and without watermarks, bound and output mode."""
    impressions = context.stream(
        "impressionAdId int, impressionTime timestamp", "i1.json", into="i"
    )
    clicks = context.stream("clickAdId int, clickTime timestamp", "c1.json", into="c")
    watermarked_impressions = impressions.withWatermark("impressionTime", "2 hours")
    watermarked_clicks = clicks.withWatermark("clickTime", "3 hours")
    cases = {
        "no watermark": (impressions, clicks, BOUND, "append"),
        "watermarks, no bound": (watermarked_impressions, watermarked_clicks, KEY, "append"),
        "equal times, both watermarks": (
            watermarked_impressions,
            watermarked_clicks,
            SAME_TIME,
            "append",
        ),
        "bound, watermark on impressions": (watermarked_impressions, clicks, BOUND, "append"),
        "bound, watermark on clicks": (impressions, watermarked_clicks, BOUND, "append"),
        "bound, both watermarks": (watermarked_impressions, watermarked_clicks, BOUND, "append"),
        "the same in update mode": (watermarked_impressions, watermarked_clicks, BOUND, "update"),
        "the same in complete mode": (
            watermarked_impressions,
            watermarked_clicks,
            BOUND,
            "complete",
        ),
    }
    refusals: list[str] = []
    cells = []
    for case, (left, right, condition, mode) in cases.items():
        results = []
        for how in TYPES:
            joined = left.join(right, on=F.expr(condition), how=how)
            result = outcome(
                joined.writeStream.outputMode(mode).format("noop").start, start_only=True
            )
            if (
                result != "allowed"
                and (result := result.replace(how.title().replace("_o", "O"), "..."))
                not in refusals
            ):
                refusals.append(result)
            results.append(result if result == "allowed" else f"[{refusals.index(result) + 1}]")
        cells.append([case, *results])
    yield format_cells(["", *TYPES], cells)
    yield "\n".join(f"[{number}] {words}" for number, words in enumerate(refusals, 1))
