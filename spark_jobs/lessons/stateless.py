"""Row by row: select, where, map, explode, union, and SQL over a view; nothing is remembered.

What looks at one row at a time is the same on a stream as on a table, and works in every output mode but complete,
with every trigger. A view gives a stream a name, and SQL over it is the same query in other words.

Notice: `explode` leaves out device c, which has no tags, and `union` says each row twice. The count per type is the
one query here that remembers something: so it is the one that needs update or complete mode.
In production: Parsing a record, and setting it aside when it cannot be parsed, is such a query (`parsing.py`).
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Run each kind of query over the same stream."""
    devices = lab.stream(
        "device string, deviceType string, signal double, tags array<string>", "devices.json"
    )
    devices.createOrReplaceTempView("updates")
    strong = devices.select("device").where("signal > 10")
    queries = {
        "select device where signal > 10": strong,
        "the same in SQL": lab.spark.sql("SELECT device FROM updates WHERE signal > 10"),
        "map: signal in per cent of 20": devices.select("device", (F.col("signal") * 5).alias("per_cent")),
        "explode: a row per tag": devices.select("device", F.explode("tags").alias("tag")),
        "union with itself": strong.union(strong),
        "count per deviceType": devices.groupBy("deviceType").count(),
        "the same in SQL over the view": lab.spark.sql("SELECT deviceType, count(*) FROM updates GROUP BY 1"),
    }
    for name, rows in queries.items():
        yield name
        yield from lab.batches(rows, "update", name)
