"""What continuous processing does not support: each restriction tried.

It supports operations on single rows only: no aggregation, deduplication, sort or current time. Of
the sources and sinks tried here and in lesson continuous, it reads Kafka and rate, and writes to
Kafka, memory and console. A failed task fails the query, because Spark does not retry tasks here: a
retry would have to take back rows already written.

A published list names map, flatMap and mapPartitions as supported. That holds for Scala's typed
functions. Python has no typed functions: `mapInPandas` and `mapInArrow` are refused, and so is
`explode`.

Notice: Spark refuses most of these before the query starts. Filters and functions of one row are
allowed, which is little in return for losing exactly-once.
In production: No job uses it. The real-time trigger, which `rack_temperature` uses, supports
aggregations (lesson real_time).
"""

from collections.abc import Callable, Iterator
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from lessons.harness.context import LessonContext, error_summary, outcomes, wait_until


def run(context: LessonContext) -> Iterator[str]:
    """Start queries with several sources, operations and sinks, then one whose task fails."""
    rate = context.spark.readStream.format("rate").options(rowsPerSecond=10, numPartitions=1).load()
    files = context.spark.readStream.text(context.add_files("readings.json"))
    exploded = F.explode(F.sequence(F.lit(1), F.col("value") + 1)).alias("value")
    numbers = count()

    def starting(
        rows: DataFrame, mode: str = "append", sink: str = "memory"
    ) -> Callable[[], StreamingQuery]:
        writer = rows.writeStream.outputMode(mode).format(sink).option("path", context.path("out"))
        return writer.queryName(f"attempt{next(numbers)}").trigger(continuous="1 second").start

    to_function = rate.writeStream.foreachBatch(lambda *_: None).trigger(continuous="1 second")
    attempts = [
        ("rate to memory", starting(rate)),
        ("rate to the console", starting(rate, sink="console")),
        ("select, where, explode", starting(rate.where("value > 1").select(exploded))),
        ("a Python function", starting(rate.select(F.udf(lambda value: value, "long")("value")))),
        ("mapInPandas", starting(rate.mapInPandas(lambda frames: frames, rate.schema))),
        ("mapInArrow", starting(rate.mapInArrow(lambda batches: batches, rate.schema))),
        ("from files", starting(files)),
        ("to foreachBatch", to_function.start),
        ("an aggregation", starting(rate.groupBy("value").count(), "update")),
        ("deduplication", starting(rate.dropDuplicates(["value"]))),
        ("a sort", starting(rate.orderBy("value"))),
        ("a union", starting(rate.union(rate))),
        (
            "a join with a table",
            starting(rate.join(context.spark.range(3), F.col("id") == F.col("value"), "inner")),
        ),
        ("current_timestamp()", starting(rate.select(F.current_timestamp()))),
    ]
    yield outcomes(attempts, start_only=True)
    failing = rate.select((F.lit(1) / (F.col("value") - 3)).alias("x"))
    for name, start in (
        ("to Parquet", starting(rate, sink="parquet")),
        ("a task that fails", starting(failing)),
    ):
        query = start()
        wait_until(lambda ended: not ended.isActive, query)
        error = query.exception()
        yield f"{name}: {error_summary(error) if error else None}"
