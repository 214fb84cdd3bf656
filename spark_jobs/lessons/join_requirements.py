"""What a join of two streams needs: watermarks and a bound on time, the more the outer it is.

An inner join is allowed without either, and keeps everything for ever. A join that gives rows without a partner has to
know when none can come any more: a watermark on both sides, or at least on the side that the other waits for, and a
bound between the two times.

Notice: An inner join without bounds is allowed and is a leak. Update mode is for inner joins; complete for none.
In production: `ad_attribution` is a left outer join with both watermarks and the bound of an hour.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.lessons.frame.lab import Lab, outcomes

KEY = "clickAdId = impressionAdId"
BOUND = f"{KEY} AND clickTime BETWEEN impressionTime AND impressionTime + INTERVAL 1 hour"


def run(lab: Lab) -> Iterator[str]:
    """Start each kind of join with more and more of what it needs."""
    impressions = lab.stream("impressionAdId int, impressionTime timestamp", "i1.json", into="i")
    clicks = lab.stream("clickAdId int, clickTime timestamp", "c1.json", into="c")
    late_impressions = impressions.withWatermark("impressionTime", "2 hours")
    late_clicks = clicks.withWatermark("clickTime", "3 hours")

    def starting(left: DataFrame, right: DataFrame, on: str, how: str, mode: str = "append") -> Callable[[], StreamingQuery]:
        return lambda: left.join(right, on=F.expr(on), how=how).writeStream.outputMode(mode).format("noop").start()

    for how in ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"):
        yield how
        yield outcomes(
            {
                "no watermark": starting(impressions, clicks, BOUND, how),
                "watermarks, no bound": starting(late_impressions, late_clicks, KEY, how),
                "bound, watermark on impressions": starting(late_impressions, clicks, BOUND, how),
                "bound, watermark on clicks": starting(impressions, late_clicks, BOUND, how),
                "both": starting(late_impressions, late_clicks, BOUND, how),
                "both, update mode": starting(late_impressions, late_clicks, BOUND, how, "update"),
                "both, complete mode": starting(late_impressions, late_clicks, BOUND, how, "complete"),
            }.items()
        )
