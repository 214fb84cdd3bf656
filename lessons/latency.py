"""Latency from topic to topic: micro-batch, continuous and real-time triggers compared.

Three queries with the same filter run side by side, one with each trigger. Every fifty milliseconds
each receives a record. Kafka stamps every record when it is appended, on the way in and on the way
out. The difference is the latency that a consumer would see.

Notice: Latencies differ by machine and moment, so the lesson compares only their order. A run
prints the milliseconds below the output, as `measured`. Published figures are about 1 ms for
continuous processing and 100 ms for micro-batches. A micro-batch pays for planning, for writing
offsets and commits, and for starting tasks in every batch; the other two do not pay this per
record. Continuous processing pays for something else: after each record it asks the broker for the
ends of the partition, and the answer waits until a fetch has ended. So a fetch here waits at most
5 ms for a record, not 500.
In production: `overheating` uses the real-time trigger. `make load` measures its latency from the
time at which a reading was due.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from threading import Event

from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, started, wait_until
from lessons.real_time import real_time

RECORDS, WARM_UP, EVERY_S = 20, 5, 0.05
FETCH_WAIT_MS = 5
"""How long a fetch waits for a record. By default, 500 ms.

Continuous processing asks for the partition's ends after each record. The broker answers only when
the next fetch has ended, so the median was 80 ms instead of 20.
"""
TRIGGERS: dict[str, Callable[[DataStreamWriter], DataStreamWriter]] = {
    "micro-batch": lambda writer: writer,
    "continuous": lambda writer: writer.trigger(continuous="1 second"),
    "real-time": real_time,
}


def run(context: LessonContext) -> Iterator[str]:
    """Measure each trigger and compare the medians."""
    reading = (context.data / "readings.json").read_text(encoding="utf-8").strip()
    sources = {name: context.broker.create_topic(f"latency-{name}-in") for name in TRIGGERS}
    sinks = {name: context.broker.create_topic(f"latency-{name}-out") for name in TRIGGERS}

    def arrived(least: int) -> bool:
        return all(len(context.broker.read(sink)) >= least for sink in sinks.values())

    with ExitStack() as queries:
        for name, trigger in TRIGGERS.items():
            writer = _hot_readings(context, sources[name], sinks[name], name)
            queries.enter_context(started(trigger(writer)))
        for number in range(1, WARM_UP + RECORDS + 1):
            for source in sources.values():
                context.broker.send(source, [reading])
            if number <= WARM_UP:
                wait_until(arrived, number)
            Event().wait(EVERY_S)
        wait_until(arrived, WARM_UP + RECORDS)
    latencies = {name: _latencies_ms(context, sink) for name, sink in sinks.items()}
    for name, each in latencies.items():
        context.measurements.append(f"{name}: median {median(each):.0f} ms, longest {max(each)} ms")
    medians = {name: median(each) for name, each in latencies.items()}
    for name in ("continuous", "real-time"):
        yield f"{name} faster than micro-batch: {medians[name] < medians['micro-batch']}"


def _hot_readings(context: LessonContext, source: str, sink: str, name: str) -> DataStreamWriter:
    """Return a query that writes the append time of each hot reading into the other topic."""
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    kafka = (
        context.spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .load()
    )
    temperature = F.get_json_object(F.col("value").cast("string"), "$.temperature")
    sent_times = kafka.where(temperature.cast("double") >= 100).select(
        F.unix_millis("timestamp").cast("string").alias("value")
    )
    mode = "update" if name == "real-time" else "append"
    return sent_times.writeStream.format("kafka").outputMode(mode).options(**options, topic=sink)


def _latencies_ms(context: LessonContext, sink: str) -> list[int]:
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    out = context.spark.read.format("kafka").options(**options, subscribe=sink).load()
    latency = (F.unix_millis("timestamp") - F.col("value").cast("string").cast("long")).alias("ms")
    return [row.ms for row in out.orderBy("offset").select(latency).collect()][WARM_UP:]
