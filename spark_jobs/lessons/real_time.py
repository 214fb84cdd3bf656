"""The real-time trigger, Kafka to Kafka: batches of minutes in which each record is passed on at once.

A batch is open for as long as the trigger says, and every record goes through all stages, shuffles included, within
milliseconds; at its end, offsets and state are written down. So it knows aggregations, deduplication and joins with
tables. It asks for Kafka as the source and update mode, and takes no Python function and no join of two streams.

Notice: The counts come per record, not per batch: rack1 is told with 1 and then with 2, although both records were
there from the start. It needs a core for every partition of source and shuffle at the same time.
In production: `overheating` and `rack_temperature` run this way by default.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.lessons.frame.lab import Lab, outcomes, started, wait_until


def real_time(writer: DataStreamWriter) -> DataStreamWriter:
    """Return the writer with the real-time trigger."""
    return writer.trigger(realTime="5 seconds")  # type: ignore[call-overload, no-any-return] # not in its types yet


def run(lab: Lab) -> Iterator[str]:
    """Count a topic's records per rack into another topic, then try what it does not take."""
    spark, options = lab.spark, {"kafka.bootstrap.servers": lab.broker.bootstrap}
    source, sink = lab.broker.topic("real-time-in"), lab.broker.topic("real-time-out")
    lab.broker.send(source, (lab.data / "readings.json").read_text(encoding="utf-8").splitlines())
    kafka = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    reading = F.from_json(F.col("value").cast("string"), "rack string, temperature double").alias("reading")
    readings = kafka.select("timestamp", reading).select("timestamp", "reading.*")
    counts = readings.groupBy("rack").count().select(F.to_json(F.struct("rack", "count")).alias("value"))

    def starting(
        rows: DataFrame, mode: str = "update", sink_format: str = "kafka"
    ) -> Callable[[], StreamingQuery]:
        value = rows.select(F.to_json(F.struct("*")).alias("value"))
        writer = value.writeStream.format(sink_format).outputMode(mode).options(**options, topic=sink)
        return real_time(writer).start

    writer = counts.writeStream.format("kafka").outputMode("update").options(**options, topic=sink)
    with started(real_time(writer)):
        wait_until(lambda: len(lab.broker.read(sink)) == 3)
    yield f"counts: {lab.broker.read(sink)}"
    late = readings.withWatermark("timestamp", "1 minute")
    limited = (
        spark.readStream.format("kafka").options(**options, subscribe=source, maxOffsetsPerTrigger=1).load()
    )
    state = late.groupBy("rack").applyInPandasWithState(
        lambda *_: iter(()), "x int", "x int", "update", "NoTimeout"
    )
    other = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=lab.broker.topic("real-time-other"))
        .load()
    )
    others = other.select(F.col("key").cast("string").alias("rack"))
    to_function = readings.writeStream.outputMode("update").foreachBatch(lambda *_: None)
    yield outcomes(
        [
            ("append mode", starting(readings, "append")),
            ("complete mode", starting(readings.groupBy("rack").count(), "complete")),
            ("files", starting(spark.readStream.text(lab.arrive("readings.json")))),
            ("rate", starting(spark.readStream.format("rate").load())),
            ("a limit per batch", starting(limited)),
            ("to foreachBatch", real_time(to_function).start),
            ("a Python state", starting(state)),
            ("a session window", starting(late.groupBy(F.session_window("timestamp", "1 minute")).count())),
            ("a join of two streams", starting(readings.join(others, on="rack", how="inner"))),
            ("dropDuplicatesWithinWatermark", starting(late.dropDuplicatesWithinWatermark(["rack"]))),
        ]
    )  # fmt: skip
