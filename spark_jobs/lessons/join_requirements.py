"""What a join of two streams needs: watermarks and a bound on time, the more the outer it is.

An inner join is allowed without either, and keeps everything for ever. A join that gives rows without a partner has
to know when none can come any more: a watermark on the side that might still bring one, and a bound between the
times.

Notice: An inner join without bounds is allowed and is a leak. A left outer join waits for clicks, so it is the
clicks' watermark that it cannot do without. Update mode is for joins that give pairs alone; complete is for none.
In production: `ad_attribution` is a left outer join with both watermarks and the bound of an hour.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, outcome, text_table

TYPES = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
KEY = "clickAdId = impressionAdId"
BOUND = f"{KEY} AND clickTime BETWEEN impressionTime AND impressionTime + INTERVAL 1 hour"


def run(lab: Lab) -> Iterator[str]:
    """Start each kind of join with more and more of what it needs."""
    impressions = lab.stream("impressionAdId int, impressionTime timestamp", "i1.json", into="i")
    clicks = lab.stream("clickAdId int, clickTime timestamp", "c1.json", into="c")
    late_impressions = impressions.withWatermark("impressionTime", "2 hours")
    late_clicks = clicks.withWatermark("clickTime", "3 hours")
    needs = {
        "no watermark": (impressions, clicks, BOUND, "append"),
        "watermarks, no bound": (late_impressions, late_clicks, KEY, "append"),
        "bound, watermark on impressions": (late_impressions, clicks, BOUND, "append"),
        "bound, watermark on clicks": (impressions, late_clicks, BOUND, "append"),
        "bound, both watermarks": (late_impressions, late_clicks, BOUND, "append"),
        "the same in update mode": (late_impressions, late_clicks, BOUND, "update"),
        "the same in complete mode": (late_impressions, late_clicks, BOUND, "complete"),
    }
    refusals: list[str] = []
    cells = []
    for need, (left, right, condition, mode) in needs.items():
        said = []
        for how in TYPES:
            joined = left.join(right, on=F.expr(condition), how=how)
            result = outcome(joined.writeStream.outputMode(mode).format("noop").start, start_only=True)
            if (
                result != "allowed"
                and (result := result.replace(how.title().replace("_o", "O"), "...")) not in refusals
            ):
                refusals.append(result)
            said.append(result if result == "allowed" else f"[{refusals.index(result) + 1}]")
        cells.append([need, *said])
    yield text_table(["", *TYPES], cells)
    yield "\n".join(f"[{number}] {words}" for number, words in enumerate(refusals, 1))
