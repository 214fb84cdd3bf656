"""A weak signal: one condition, told from the counts, the table of devices, the input and the Parquet folder.

Signal strength below 0.2. Over the input it is a filter, per record and at once. Over counts per window it is a
condition on an aggregate. Over a table it is a question that somebody has to ask.

Notice: Per record there are as many alerts as weak records, per window one. The table knows only the last state that
somebody wrote there, and tells nobody by itself.
In production: `weak_signal` is an alert rule over `rack-readings`, in the real-time trigger.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish, table
from spark_jobs.lessons.sensor_counts import counts_per_device, processed

WEAK = "signalStrength < 0.2"


def run(lab: Lab) -> Iterator[str]:
    """Tell of weak signals in four ways."""
    records = processed(lab)
    counts = counts_per_device(records)
    yield "the input, per record"
    yield from lab.batches(records.where(WEAK).select("deviceId", "signalStrength"), checkpoint="input")
    yield "counts per window, which are over"
    start = F.date_format("window.start", "HH:mm:ss").alias("start")
    yield from lab.batches(
        counts.where(WEAK).select(start, "deviceId", "count", "signalStrength"), "append", "counts"
    )
    memory = counts.writeStream.outputMode("complete").format("memory").queryName("devices")
    finish(memory.trigger(availableNow=True).start())
    yield "the table devices"
    yield table(lab.spark.table("devices").where(WEAK).select(start, "deviceId", "signalStrength"))
    yield "the Parquet folder"
    yield table(lab.spark.read.parquet(lab.path("parquet")).where(WEAK).groupBy("deviceId").count())
