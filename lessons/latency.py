"""Latency from topic to topic: micro-batch, continuous and real-time triggers compared.

The same filter runs with each trigger and receives a record every fifty milliseconds. Kafka stamps
every record when it is appended, on the way in and on the way out. The difference is the latency
that a consumer would see.

Notice: Latencies differ by machine and moment, so the lesson checks only their order. A micro-batch
pays for planning, for writing offsets and commits, and for starting tasks in every batch; the other
two do not pay this per record.
In production: `make load` measures the latency of alerts, from the time at which a reading was due.
"""

from collections.abc import Callable, Iterator
from statistics import median
from threading import Event

from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, started, wait_until
from lessons.real_time import real_time

RECORDS, WARM_UP, EVERY_S = 20, 5, 0.05


def run(context: LessonContext) -> Iterator[str]:
    """Measure each trigger and compare the medians."""
    triggers = {
        "micro-batch": lambda writer: writer,
        "continuous": lambda writer: writer.trigger(continuous="1 second"),
        "real-time": real_time,
    }
    medians = {
        name: median(_latencies_ms(context, name, trigger)) for name, trigger in triggers.items()
    }
    for name in ("continuous", "real-time"):
        yield f"{name} faster than micro-batch: {medians[name] < medians['micro-batch']}"


def _latencies_ms(
    context: LessonContext, name: str, trigger: Callable[[DataStreamWriter], DataStreamWriter]
) -> list[int]:
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    source, sink = (
        context.broker.create_topic(f"latency-{name}-in"),
        context.broker.create_topic(f"latency-{name}-out"),
    )
    kafka = (
        context.spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    hot = kafka.where(
        F.get_json_object(F.col("value").cast("string"), "$.temperature").cast("double") >= 100
    )
    sent_times = hot.select(F.unix_millis("timestamp").cast("string").alias("value"))
    writer = sent_times.writeStream.format("kafka").outputMode(
        "update" if name == "real-time" else "append"
    )
    with started(trigger(writer.options(**options, topic=sink))):
        reading = (context.data / "readings.json").read_text(encoding="utf-8").strip()
        for number in range(WARM_UP + RECORDS):
            context.broker.send(source, [reading])
            if number < WARM_UP:
                wait_until(lambda before: len(context.broker.read(sink)) > before, number)
            Event().wait(EVERY_S)
        wait_until(lambda: len(context.broker.read(sink)) >= WARM_UP + RECORDS)
    out = context.spark.read.format("kafka").options(**options, subscribe=sink).load()
    latency = (F.unix_millis("timestamp") - F.col("value").cast("string").cast("long")).alias("ms")
    return [row.ms for row in out.orderBy("offset").select(latency).collect()][WARM_UP:]
