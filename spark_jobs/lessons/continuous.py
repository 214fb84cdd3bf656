"""Continuous processing, Kafka to Kafka: a task for each partition that never ends, and what it cannot do.

Instead of batches, each partition has a task that reads, works and writes row by row, and every second the places
reached are written down. Published figures are a millisecond, at least once, against a hundred for batches, exactly
once. It knows only what looks at one row; sources are Kafka and rate, sinks Kafka, memory and console; it needs a core
for each partition for as long as it runs; and a task that fails ends the query, since no task is tried again.

Notice: Of a partition too many for the cores nothing is said: the query waits for ever for a free core. It has been
experimental since Spark 2.3 and got no further; the real-time trigger knows aggregations and has taken its place.
In production: No job uses it; `overheating` and `rack_temperature` have the real-time trigger.
"""

from collections.abc import Callable, Iterator
from threading import Event

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_jobs.lessons.frame.lab import Lab, outcomes, reason, started, wait_until

CORES = 8
"""As many tasks as the lessons' session runs at once."""


def run(lab: Lab) -> Iterator[str]:
    """Filter a topic into another, then try each restriction."""
    spark, options = lab.spark, {"kafka.bootstrap.servers": lab.broker.bootstrap}
    source, sink = lab.broker.topic("continuous-in"), lab.broker.topic("continuous-out")
    lab.broker.send(source, (lab.data / "readings.json").read_text(encoding="utf-8").splitlines())
    kafka = spark.readStream.format("kafka").options(**options, subscribe=source, startingOffsets="earliest").load()
    text = kafka.select(F.col("value").cast("string"))
    hot = text.where(F.get_json_object("value", "$.temperature").cast("double") >= 100)
    writer = hot.writeStream.format("kafka").options(**options, topic=sink).trigger(continuous="1 second")
    with started(writer):
        wait_until(lambda: lab.broker.read(sink))
    yield f"hot readings: {lab.broker.read(sink)}"
    rate = spark.readStream.format("rate").options(rowsPerSecond=10, numPartitions=1).load()
    files = spark.readStream.text(lab.arrive("readings.json"))

    def starting(rows: DataFrame, mode: str = "append", sink: str = "memory") -> Callable[[], StreamingQuery]:
        name = f"tried{next(numbers)}"
        return rows.writeStream.outputMode(mode).format(sink).queryName(name).trigger(continuous="1 second").start

    numbers = iter(range(100))
    yield outcomes(
        [
            ("rate to memory", starting(rate)),
            ("rate to the console", starting(rate, sink="console")),
            ("select, where, explode", starting(rate.where("value > 1").select(F.explode(F.sequence(F.lit(1), "value"))))),
            ("files", starting(files)),
            ("to Parquet", starting(rate, sink="parquet")),
            ("to foreachBatch", rate.writeStream.foreachBatch(lambda *_: None).trigger(continuous="1 second").start),
            ("an aggregation", starting(rate.groupBy("value").count(), "update")),
            ("deduplication", starting(rate.dropDuplicates(["value"]))),
            ("a sort", starting(rate.orderBy("value"))),
            ("a union", starting(rate.union(rate))),
            ("a join with a table", starting(rate.join(spark.range(3), F.col("id") == F.col("value"), "inner"))),
            ("current_timestamp()", starting(rate.select(F.current_timestamp()))),
            ("a Python function", starting(rate.select(F.udf(lambda value: value, "long")("value")))),
        ],
        start_only=True,
    )
    for partitions in (1, CORES + 1):
        many = spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=partitions).load()
        with started(many.writeStream.format("memory").queryName(f"of{partitions}").trigger(continuous="1 second")):
            if partitions <= CORES:
                wait_until(lambda partitions=partitions: spark.table(f"of{partitions}").count())
            else:
                Event().wait(3)
            yield f"{partitions} partitions on {CORES} cores, rows after a while: {spark.table(f'of{partitions}').count() > 0}"
    failing = rate.select((F.lit(1) / (F.col("value") - 3)).alias("x"))
    query = failing.writeStream.format("memory").queryName("failing").trigger(continuous="1 second").start()
    wait_until(lambda: not query.isActive)
    error = query.exception()
    yield f"a task that fails: {reason(error) if error else None}"
