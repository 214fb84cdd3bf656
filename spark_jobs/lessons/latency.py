"""How long from topic to topic? Micro-batch, continuous and real-time measured side by side.

A record every fifty milliseconds goes through the same filter with each trigger. Kafka stamps every record when it is
appended, on the way in and on the way out: the difference is the latency, as a consumer would see it.

Notice: The figures differ by machine and moment, so only their order is held. A micro-batch pays for planning, for
writing offsets and commits, and for starting tasks, for every batch; the other two pay none of it per record.
In production: The alerts' latency is measured by `make bench`, from when a reading was due.
"""

from collections.abc import Callable, Iterator
from statistics import median
from threading import Event

from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.lessons.frame.lab import Lab, started, wait_until
from spark_jobs.lessons.real_time import real_time

RECORDS, WARM_UP, EVERY_S = 20, 5, 0.05


def run(lab: Lab) -> Iterator[str]:
    """Measure each trigger, and compare the medians."""
    triggers = {
        "micro-batch": lambda writer: writer,
        "continuous": lambda writer: writer.trigger(continuous="1 second"),
        "real-time": real_time,
    }
    medians = {name: median(_latencies_ms(lab, name, trigger)) for name, trigger in triggers.items()}
    for name in ("continuous", "real-time"):
        yield f"{name} faster than micro-batch: {medians[name] < medians['micro-batch']}"


def _latencies_ms(lab: Lab, name: str, trigger: Callable[[DataStreamWriter], DataStreamWriter]) -> list[int]:
    options = {"kafka.bootstrap.servers": lab.broker.bootstrap}
    source, sink = lab.broker.topic(f"latency-{name}-in"), lab.broker.topic(f"latency-{name}-out")
    kafka = (
        lab.spark.readStream.format("kafka")
        .options(**options, subscribe=source, startingOffsets="earliest")
        .load()
    )
    hot = kafka.where(F.get_json_object(F.col("value").cast("string"), "$.temperature").cast("double") >= 100)
    came = hot.select(F.unix_millis("timestamp").cast("string").alias("value"))
    writer = came.writeStream.format("kafka").outputMode("update" if name == "real-time" else "append")
    with started(trigger(writer.options(**options, topic=sink))):
        reading = (lab.data / "readings.json").read_text(encoding="utf-8").strip()
        for number in range(WARM_UP + RECORDS):
            lab.broker.send(source, [reading])
            if number < WARM_UP:
                wait_until(lambda before: len(lab.broker.read(sink)) > before, number)
            Event().wait(EVERY_S)
        wait_until(lambda: len(lab.broker.read(sink)) >= WARM_UP + RECORDS)
    out = lab.spark.read.format("kafka").options(**options, subscribe=sink).load()
    took = (F.unix_millis("timestamp") - F.col("value").cast("string").cast("long")).alias("ms")
    return [row.ms for row in out.orderBy("offset").select(took).collect()][WARM_UP:]
