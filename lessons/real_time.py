"""The real-time trigger, Kafka to Kafka: long batches that pass each record on at once.

A batch stays open for as long as the trigger says. Every record passes all stages, shuffles
included, without waiting for its end. At the end of the batch, Spark writes offsets and state. The
trigger supports aggregations, `dropDuplicates` and joins with tables. It requires update mode and a
source such as Kafka. It refuses `foreachBatch`, Python state and joins of two streams.

Notice: The counts come per record, not per batch: rack1 comes with 1 and then with 2, although both
records existed from the start. The trigger needs a task slot for every partition of source and
shuffle at the same time.
In production: `overheating` and `rack_temperature` run this way by default. `docs/performance.md`
has their latency.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, outcomes, started, wait_until


def real_time(writer: DataStreamWriter, batch: str = "5 seconds") -> DataStreamWriter:
    """Set the real-time trigger, with the length of a batch."""
    return writer.trigger(realTime=batch)  # type: ignore[call-overload, no-any-return] # not in its types yet


def run(context: LessonContext) -> Iterator[str]:
    """Count records per rack into another topic, then try unsupported operations."""
    spark, options = context.spark, {"kafka.bootstrap.servers": context.broker.bootstrap}
    source, sink = (
        context.broker.create_topic("real-time-in"),
        context.broker.create_topic("real-time-out"),
    )
    context.broker.send(
        source, (context.data / "readings.json").read_text(encoding="utf-8").splitlines()
    )
    kafka = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    reading = F.from_json(F.col("value").cast("string"), "rack string, temperature double").alias(
        "reading"
    )
    readings = kafka.select("timestamp", reading).select("timestamp", "reading.*")
    counts = (
        readings.groupBy("rack").count().select(F.to_json(F.struct("rack", "count")).alias("value"))
    )

    def starting(
        rows: DataFrame, mode: str = "update", sink_format: str = "kafka"
    ) -> Callable[[], StreamingQuery]:
        value = rows.select(F.to_json(F.struct("*")).alias("value"))
        writer = (
            value.writeStream.format(sink_format).outputMode(mode).options(**options, topic=sink)
        )
        return real_time(writer).start

    writer = counts.writeStream.format("kafka").outputMode("update").options(**options, topic=sink)
    with started(real_time(writer)):
        wait_until(lambda: len(context.broker.read(sink)) == 3)
    yield f"counts: {context.broker.read(sink)}"
    watermarked = readings.withWatermark("timestamp", "1 minute")
    limited = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=source, maxOffsetsPerTrigger=1)
        .load()
    )
    state = watermarked.groupBy("rack").applyInPandasWithState(
        lambda *_: iter(()), "x int", "x int", "update", "NoTimeout"
    )
    other = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=context.broker.create_topic("real-time-other"))
        .load()
    )
    others = other.select(F.col("key").cast("string").alias("rack"))
    sessions = watermarked.groupBy(F.session_window("timestamp", "1 minute")).count()
    distinct = watermarked.dropDuplicatesWithinWatermark(["rack"])
    to_function = readings.writeStream.outputMode("update").foreachBatch(lambda *_: None)
    yield outcomes(
        [
            ("append mode", starting(readings, "append")),
            ("complete mode", starting(readings.groupBy("rack").count(), "complete")),
            ("files", starting(spark.readStream.text(context.add_files("readings.json")))),
            ("rate", starting(spark.readStream.format("rate").load())),
            ("a limit per batch", starting(limited)),
            ("to foreachBatch", real_time(to_function).start),
            ("a Python state", starting(state)),
            ("a session window", starting(sessions)),
            ("a join of two streams", starting(readings.join(others, on="rack", how="inner"))),
            ("dropDuplicatesWithinWatermark", starting(distinct)),
        ]
    )  # fmt: skip
