"""Continuous processing, Kafka to Kafka: one long-running task per partition.

Instead of batches, each partition has a task that reads, processes and writes row by row, and
records its offsets at the trigger's interval, here one second. It delivers at least once.
Micro-batches can deliver exactly once, but take longer (lesson latency). It needs a core for each
partition for as long as it runs.

Notice: The console calls an epoch a batch. `rampUpTime` has no effect here: the rows come at full
rate from the start (lesson rate_source shows the ramp). The ninth partition gives no rows and no
error: its task waits for a free core for ever, and nothing is committed. Continuous processing has
been experimental since Spark 2.3. The real-time trigger, which supports aggregations, has replaced
it.
In production: No job uses it. `overheating` and `rack_temperature` use the real-time trigger.
"""

import itertools
import re
from collections.abc import Iterator
from datetime import datetime
from threading import Event
from typing import Any

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, started, wait_until

CORES = 8
"""How many tasks the lessons' session runs at once."""
GENERATED = 10
"""How many generated rows to print."""


def run(context: LessonContext) -> Iterator[str]:
    """Filter a topic, print generated rows, then read as many partitions as cores, and one more."""
    spark, options = context.spark, {"kafka.bootstrap.servers": context.broker.bootstrap}
    source, sink = (
        context.broker.create_topic("continuous-in"),
        context.broker.create_topic("continuous-out"),
    )
    context.broker.send(
        source, (context.data / "readings.json").read_text(encoding="utf-8").splitlines()
    )
    kafka = (
        spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    text = kafka.select(F.col("value").cast("string"))
    hot = text.where(F.get_json_object("value", "$.temperature").cast("double") >= 100)
    writer = hot.writeStream.format("kafka").options(**options, topic=sink)
    with started(writer.trigger(continuous="1 second")):
        wait_until(lambda: context.broker.read(sink))
    yield f"hot readings: {context.broker.read(sink)}"
    yield from _on_console(context)
    for partitions in (CORES, CORES + 1):
        topic = context.broker.create_topic(f"continuous-{partitions}")
        rate = (
            spark.readStream.format("rate")
            .options(rowsPerSecond=100, numPartitions=partitions)
            .load()
        )
        value = rate.select((F.col("value") % partitions).cast("string").alias("value"))
        writer = value.writeStream.format("kafka").options(**options, topic=topic)
        with started(writer.trigger(continuous="1 second")):
            wait_until(lambda topic: len(set(context.broker.read(topic))) == CORES, topic)
            Event().wait(2)
            arrived = len(set(context.broker.read(topic)))
            yield f"{partitions} partitions on {CORES} cores: rows from {arrived} arrived"


def _on_console(context: LessonContext) -> Iterator[str]:
    options: dict[str, Any] = {"rowsPerSecond": 100, "rampUpTime": "5s", "numPartitions": 1}
    rate = context.spark.readStream.format("rate").options(**options).load()
    writer = rate.writeStream.format("console").option("truncate", False)
    printed: list[str] = []

    def rows() -> list[tuple[str, str]]:
        printed.append(context.console_output())
        return re.findall(r"\|([\d-]+ [\d:.]+)\s*\|(\d+)\s*\|", "".join(printed))

    context.console_output()
    with started(writer.trigger(continuous="1 second")):
        wait_until(lambda: len(rows()) >= GENERATED)
    first = rows()[:GENERATED]
    times = [datetime.fromisoformat(time) for time, _ in first]
    gaps = {(after - before).total_seconds() for before, after in itertools.pairwise(times)}
    yield f"rate with {options} to the console"
    yield f"  every epoch is printed as a batch: {'Batch: ' in ''.join(printed)}"
    yield f"  values {[int(value) for _, value in first]}, {sorted(gaps)} s apart"
