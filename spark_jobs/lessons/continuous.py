"""Continuous processing, Kafka to Kafka: a task for each partition that never ends.

Instead of batches, each partition has a task that reads, works and writes row by row, and every second the places
reached are written down. Published figures are a millisecond, at least once, against a hundred for batches, exactly
once (lesson latency). It needs a core for each partition for as long as it runs.

Notice: Of the ninth partition nothing comes, without a word: it waits for a free core for ever, and nothing is
committed. It has been experimental since Spark 2.3; the real-time trigger, which knows aggregations, has taken its
place.
In production: No job uses it; `overheating` and `rack_temperature` have the real-time trigger.
"""

from collections.abc import Iterator
from threading import Event

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, started, wait_until

CORES = 8
"""As many tasks as the lessons' session runs at once."""


def run(lab: Lab) -> Iterator[str]:
    """Filter a topic into another, then take as many partitions as there are cores, and one more."""
    spark, options = lab.spark, {"kafka.bootstrap.servers": lab.broker.bootstrap}
    source, sink = lab.broker.topic("continuous-in"), lab.broker.topic("continuous-out")
    lab.broker.send(source, (lab.data / "readings.json").read_text(encoding="utf-8").splitlines())
    kafka = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    text = kafka.select(F.col("value").cast("string"))
    hot = text.where(F.get_json_object("value", "$.temperature").cast("double") >= 100)
    writer = hot.writeStream.format("kafka").options(**options, topic=sink)
    with started(writer.trigger(continuous="1 second")):
        wait_until(lambda: lab.broker.read(sink))
    yield f"hot readings: {lab.broker.read(sink)}"
    for partitions in (CORES, CORES + 1):
        topic = lab.broker.topic(f"continuous-{partitions}")
        rate = spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=partitions).load()
        value = rate.select((F.col("value") % partitions).cast("string").alias("value"))
        writer = value.writeStream.format("kafka").options(**options, topic=topic)
        with started(writer.trigger(continuous="1 second")):
            wait_until(lambda topic: len(set(lab.broker.read(topic))) == CORES, topic)
            Event().wait(2)
            yield f"{partitions} partitions on {CORES} cores: rows of {len(set(lab.broker.read(topic)))} came"
