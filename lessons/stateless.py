"""Stateless operations: select, where, map, explode, union, and SQL over a view.

Operations on single rows work on a stream as on a table, in append and update mode. The continuous
trigger refuses `explode` and `union` (lesson continuous_limits). A view gives a stream a name, and
SQL over the view is the same query.

Notice: `explode` drops device c, which has no tags, and `union` gives each row twice. The count per
type is the only query here with state, so it needs update or complete mode.
In production: `dead_letters` is such a query: it parses records, and writes those that jobs leave
out as unreadable or too early.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Run each query over the same stream."""
    devices = context.stream(
        "device string, deviceType string, signal double, tags array<string>", "devices.json"
    )
    devices.createOrReplaceTempView("updates")
    strong = devices.select("device").where("signal > 10")
    queries = {
        "select device where signal > 10": strong,
        "the same in SQL": context.spark.sql("SELECT device FROM updates WHERE signal > 10"),
        "map: signal in percent of 20": devices.select(
            "device", (F.col("signal") * 5).alias("percent")
        ),
        "explode: a row per tag": devices.select("device", F.explode("tags").alias("tag")),
        "union with itself": strong.union(strong),
        "count per deviceType": devices.groupBy("deviceType").count(),
        "the same in SQL over the view": context.spark.sql(
            "SELECT deviceType, count(*) FROM updates GROUP BY 1"
        ),
    }
    for name, rows in queries.items():
        yield name
        yield from context.run_batches(rows, "update", name)
