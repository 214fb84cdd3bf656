"""A watermark removes only windows of its own column: records per device in five seconds.

The third part of the chain (lesson sensor_etl): counts over the ETL's folder, in windows of the
records' `timestamp`. The published query sets its watermark of one minute on `PROCESSED_TIME`, the
time at which the ETL read the record. Its reason is that devices may send late. But a watermark
says how far one column has come. It says nothing about windows of another column. So no window is
ever closed: the state only grows, and append mode is refused. In complete mode, which the published
query uses, nobody notices.

The right query has the watermark on the column of its windows. Windows of `PROCESSED_TIME` would be
allowed as well, but they say when a record passed, not when it was measured: after a stop, hours of
measurements fall into one window, and no record is ever late.

Data: The files of lesson sensor_etl.
Notice: Both queries count the same. A row of state belongs to a window and a device. With the
watermark on `timestamp`, the third file, five minutes later, closes the two windows before it, and
update mode removes their five rows: only the third file's own row remains. Complete mode removes
nothing with either watermark (lesson state_cleanup).
In production: `lost_signal` counts readings in windows of event time, and closes them by it.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table, outcome
from lessons.sensor_etl import etl, sensors


def counts_per_device(records: DataFrame, watermark_on: str = "timestamp") -> DataFrame:
    """Return `window`, `deviceId`, `count` and minimum `signalStrength` per five seconds."""
    grouped = records.withWatermark(watermark_on, "1 minute").groupBy(
        F.window("timestamp", "5 seconds"), "deviceId"
    )
    return grouped.agg(F.count("*").alias("count"), F.min("signalStrength").alias("signalStrength"))


def run(context: LessonContext) -> Iterator[str]:
    """Run both queries in each mode, and show the state rows after each batch."""
    await_end(etl(context, "1.json", "2.json", "3.json").trigger(availableNow=True).start())
    for column in ("PROCESSED_TIME", "timestamp"):
        counts = counts_per_device(sensors(context), column)
        yield f"windows on timestamp, watermark on {column}"
        writer = counts.writeStream.format("noop")
        append = outcome(writer.outputMode("append").start, start_only=True)
        yield f"  append    {append}"
        for mode in ("complete", "update"):
            name = f"devices_{mode}_{column}"
            memory = counts.writeStream.outputMode(mode).format("memory").queryName(name)
            query = memory.trigger(availableNow=True).start()
            await_end(query)
            state_rows = [batch.stateOperators[0].numRowsTotal for batch in query.recentProgress]
            yield f"  {mode:<8}  allowed, state rows after each batch: {state_rows}"
        devices = context.spark.table(f"devices_complete_{column}")
        start = F.date_format("window.start", "HH:mm:ss").alias("start")
        yield format_table(devices.select(start, "deviceId", "count"))
    passed = sensors(context).withWatermark("PROCESSED_TIME", "1 minute")
    passed = passed.groupBy(F.window("PROCESSED_TIME", "5 seconds"), "deviceId").count()
    yield "windows on PROCESSED_TIME, watermark on PROCESSED_TIME"
    yield f"  append    {outcome(passed.writeStream.format('noop').start, start_only=True)}"
