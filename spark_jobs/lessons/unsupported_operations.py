"""The old list of what streams cannot do: each tried on this version.

Old texts say that a stream knows no second aggregation, no limit, no distinct, no sort, and none of the calls that
return something at once. Some of that is allowed now, in some output modes; the rest is refused with a reason.

Notice: A limit counts over the whole stream, for ever: after so many rows nothing comes any more. `distinct` keeps
all rows it has seen. What returns something at once has a sink in its place: `count()` is `groupBy().count()`,
`foreach` is `writeStream.foreach`, `show` is the console.
In production: The jobs sort nothing and chain no aggregations; a reader of a topic sorts what it needs.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.lessons.frame.lab import Lab, outcomes


def run(lab: Lab) -> Iterator[str]:
    """Try each in append, update and complete mode, then what returns something at once."""
    events = lab.stream("user string, value int, ts timestamp", "events.json").withWatermark("ts", "1 minute")
    windows = events.groupBy(F.window("ts", "1 minute"), "user").count()
    queries = {
        "two aggregations": windows.groupBy(F.window(F.window_time("window"), "1 hour")).count(),
        "limit": events.limit(2),
        "distinct": events.select("user").distinct(),
        "sort": events.orderBy("value"),
        "sort after an aggregation": events.groupBy("user").count().orderBy("count"),
    }

    def starting(rows: DataFrame, mode: str) -> Callable[[], StreamingQuery]:
        return rows.writeStream.outputMode(mode).format("noop").start

    for name, rows in queries.items():
        yield name
        yield outcomes(
            [(mode, starting(rows, mode)) for mode in ("append", "update", "complete")], start_only=True
        )
    yield "at once"
    yield outcomes(
        [
            ("count()", events.count),
            ("show()", events.show),
            ("collect()", events.collect),
            ("foreach(print)", lambda: events.foreach(print)),
            ("describe()", lambda: events.describe().collect()),
            ("write.parquet()", lambda: events.write.parquet(lab.path("out"))),
        ]
    )
    yield "limit 2 over two files"
    lab.write((lab.data / "events.json").read_bytes(), "input/2.json")
    yield from lab.batches(events.limit(2).select("user", "value"), progress=True)
