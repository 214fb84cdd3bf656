"""Find weak signals in four places: a stream, windows, a memory table and a Parquet folder.

The condition is a signal strength below 0.2, over the ETL's folder (lesson sensor_etl). On the
stream of records it is a filter, per record and immediate. On counts per window it is a condition
on an aggregate. On a table or a folder it is a query that somebody has to run.

Data: The files of lesson sensor_etl.
Notice: The stream gives one row per weak record, the windows give one per window. A table holds
only the last result and notifies nobody.
In production: `weak_signal` is an alert rule over `rack-readings`, with the real-time trigger.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table
from lessons.sensor_counts import counts_per_device
from lessons.sensor_etl import etl, sensors, written

WEAK = "signalStrength < 0.2"


def run(context: LessonContext) -> Iterator[str]:
    """Find weak signals in four places."""
    await_end(etl(context, "1.json", "2.json", "3.json").trigger(availableNow=True).start())
    records = sensors(context)
    counts = counts_per_device(records)
    yield "the stream, per record"
    yield from context.run_batches(
        records.where(WEAK).select("deviceId", "signalStrength"), checkpoint="records"
    )
    yield "counts per closed window"
    start = F.date_format("window.start", "HH:mm:ss").alias("start")
    yield from context.run_batches(
        counts.where(WEAK).select(start, "deviceId", "count", "signalStrength"), "append", "counts"
    )
    memory = counts.writeStream.outputMode("complete").format("memory").queryName("devices")
    await_end(memory.trigger(availableNow=True).start())
    yield "the memory table devices"
    yield format_table(
        context.spark.table("devices").where(WEAK).select(start, "deviceId", "signalStrength")
    )
    yield "the Parquet folder"
    yield format_table(
        context.spark.read.parquet(written(context)).where(WEAK).groupBy("deviceId").count()
    )
