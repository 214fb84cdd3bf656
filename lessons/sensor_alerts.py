"""Fewer than five records in five seconds: an alert, with foreach and foreachBatch, in two modes.

The end of the chain (lesson sensor_etl), with all of it running at once: a file arrives, the ETL
appends it to the Parquet folder, a second stream counts (lesson sensor_counts), and a device with
fewer than five records in a window gets an alert line. foreach writes it row by row in a Python
worker, foreachBatch for the whole batch in the driver.

A count is final only when its window has closed, so the counts have to come in append mode. In
update mode every window starts with too few. The published query, which judges each batch of
complete or update mode, alerts on every device.

Data: The files of lesson sensor_etl.
Notice: In update mode device 1 has an alert for its first window, which had five records in the
end, and device 4 for its last, which is still open. Append mode judges each closed window once: the
third file closes the windows of the other two.
In production: `lost_signal` raises this alert, on closed windows, for racks that sent some readings
but fewer than expected.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, started
from lessons.sensor_counts import counts_per_device
from lessons.sensor_etl import DATA, etl, sensors

EXPECTED_RECORDS = 5


def alert(row: Row) -> str:
    """Return the alert line for a window with too few records."""
    window = f"Between {row.start} and {row.end}"
    return f"ALERT from Sensors: {window}, device {row.deviceId} reported only {row['count']} times"


def too_few(counts: DataFrame) -> DataFrame:
    """Return `start`, `end`, `deviceId` and `count` of windows with fewer than five records."""
    start, end = (
        F.date_format(f"window.{edge}", "HH:mm:ss").alias(edge) for edge in ("start", "end")
    )
    return counts.where(F.col("count") < EXPECTED_RECORDS).select(start, end, "deviceId", "count")


def run(context: LessonContext) -> Iterator[str]:
    """Run the ETL and the alerts in both modes at once, and send three files."""
    # Four queries that poll every 10 ms, the default, would keep two processors busy.
    context.spark.conf.set("spark.sql.streaming.pollingDelay", "200ms")
    alerts = too_few(counts_per_device(sensors(context)))
    file = context.folder / "foreach.txt"
    lines: dict[str, list[str]] = {"update": [], "append": []}

    def write_line(row: Row) -> None:  # in a Python worker, which shares only files with the driver
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"  {alert(row)}\n")

    def write_batch(mode: str, rows: DataFrame, _number: int) -> None:
        lines[mode] += [f"  {alert(row)}" for row in rows.orderBy("start", "deviceId").collect()]

    writers = [etl(context), alerts.writeStream.outputMode("append").foreach(write_line)]
    for mode in lines:
        writer = alerts.writeStream.outputMode(mode)
        writers.append(writer.foreachBatch(partial(write_batch, mode)))
    with ExitStack() as stack:
        queries = [stack.enter_context(started(writer)) for writer in writers]
        for name in ("1.json", "2.json", "3.json"):
            context.add_files(str(DATA / name))
            for query in queries:
                query.processAllAvailable()
            for mode, new in lines.items():
                yield "\n".join([f"{name}, {mode} mode", *(new or ["  no alert"])])
                closed = list(new)
                new.clear()
    by_row = file.read_text(encoding="utf-8").splitlines()
    yield f"append mode: foreach wrote the same {len(by_row)} lines: {sorted(by_row) == closed}"
