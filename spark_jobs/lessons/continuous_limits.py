"""What continuous processing does not take: each restriction tried.

It knows what looks at one row and nothing else: no aggregation, no deduplication, no sort, no clock. Sources are
Kafka and rate, sinks Kafka, memory and console. A task that fails ends the query, since no task is tried again: it
would have to take back what it has written.

Notice: The refusals come before the query starts. What is allowed is a filter and a map, which is not much to give up
exactly-once for.
In production: No job uses it; the real-time trigger takes aggregations (lesson real_time).
"""

from collections.abc import Callable, Iterator
from itertools import count

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.lessons.frame.lab import Lab, outcomes, reason, wait_until


def run(lab: Lab) -> Iterator[str]:
    """Try sources, operations and sinks, then a task that fails."""
    rate = lab.spark.readStream.format("rate").options(rowsPerSecond=10, numPartitions=1).load()
    files = lab.spark.readStream.text(lab.arrive("readings.json"))
    several = F.explode(F.sequence(F.lit(1), F.col("value") + 1)).alias("value")
    numbers = count()

    def starting(rows: DataFrame, mode: str = "append", sink: str = "memory") -> Callable[[], StreamingQuery]:
        writer = rows.writeStream.outputMode(mode).format(sink).option("path", lab.path("out"))
        return writer.queryName(f"tried{next(numbers)}").trigger(continuous="1 second").start

    to_function = rate.writeStream.foreachBatch(lambda *_: None).trigger(continuous="1 second")
    attempts = [
        ("rate to memory", starting(rate)),
        ("rate to the console", starting(rate, sink="console")),
        ("select, where, explode", starting(rate.where("value > 1").select(several))),
        ("a Python function", starting(rate.select(F.udf(lambda value: value, "long")("value")))),
        ("from files", starting(files)),
        ("to foreachBatch", to_function.start),
        ("an aggregation", starting(rate.groupBy("value").count(), "update")),
        ("deduplication", starting(rate.dropDuplicates(["value"]))),
        ("a sort", starting(rate.orderBy("value"))),
        ("a union", starting(rate.union(rate))),
        (
            "a join with a table",
            starting(rate.join(lab.spark.range(3), F.col("id") == F.col("value"), "inner")),
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
        yield f"{name}: {reason(error) if error else None}"
