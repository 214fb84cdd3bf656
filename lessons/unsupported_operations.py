"""Operations that streams do not support, each tried on this Spark version.

Older texts say that a stream supports no second aggregation, limit, distinct or sort, and no action
that returns a result. This version allows some of them in some output modes, and refuses the others
with a reason.

Notice: A limit counts over the whole stream: after that many rows, no more come. `distinct` keeps
every different row in state. Each eager action has a streaming form: `count()` is
`groupBy().count()`, `foreach` is `writeStream.foreach`, `show` is the console sink.
In production: The jobs, such as `action_counts`, neither sort nor chain aggregations. A reader of a
topic sorts what it needs.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lessons.harness.context import LessonContext, outcomes


def run(context: LessonContext) -> Iterator[str]:
    """Try each operation in every output mode, then eager actions."""
    events = context.stream("user string, value int, ts timestamp", "events.json").withWatermark(
        "ts", "1 minute"
    )
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
            [(mode, starting(rows, mode)) for mode in ("append", "update", "complete")],
            start_only=True,
        )
    yield "eager actions"
    yield outcomes(
        [
            ("count()", events.count),
            ("show()", events.show),
            ("collect()", events.collect),
            ("foreach(print)", lambda: events.foreach(print)),
            ("describe()", lambda: events.describe().collect()),
            ("write.parquet()", lambda: events.write.parquet(context.path("out"))),
        ]
    )
    yield "limit 2 over two files"
    context.add_file((context.data / "events.json").read_bytes(), "input/2.json")
    yield from context.run_batches(events.limit(2).select("user", "value"), progress=True)
