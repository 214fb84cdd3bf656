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
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, started
from lessons.sensor_counts import counts_per_device
from lessons.sensor_etl import etl, send, sensors

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


class AlertLines:
    """Alert lines of one output mode, written by both sinks."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.by_batch: list[str] = []

    def write_row(self, row: Row) -> None:
        """Append the line of one row, in a Python worker, which shares only files with us."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"  {alert(row)}\n")

    def write_batch(self, rows: DataFrame, _number: int) -> None:
        """Keep the lines of a batch, in the driver."""
        self.by_batch += [f"  {alert(row)}" for row in rows.orderBy("start", "deviceId").collect()]


def run(context: LessonContext) -> Iterator[str]:
    """Run the ETL with alerts in both modes and both sinks, and send three files."""
    alerts = too_few(counts_per_device(sensors(context)))
    with started(etl(context)) as first, ExitStack() as stack:
        modes = {mode: AlertLines(context.folder / f"{mode}.txt") for mode in ("update", "append")}
        queries = [first]
        for mode, lines in modes.items():
            writer = alerts.writeStream.outputMode(mode)
            queries.append(stack.enter_context(started(writer.foreach(lines.write_row))))
            writer = alerts.writeStream.outputMode(mode)
            queries.append(stack.enter_context(started(writer.foreachBatch(lines.write_batch))))
        for file in ("1.json", "2.json", "3.json"):
            shown = {mode: len(lines.by_batch) for mode, lines in modes.items()}
            send(context, file)
            for query in queries:
                query.processAllAvailable()
            for mode, lines in modes.items():
                new = lines.by_batch[shown[mode] :] or ["  no alert"]
                yield "\n".join([f"{file}, {mode} mode", *new])
    for mode, lines in modes.items():
        by_row = lines.file.read_text(encoding="utf-8").splitlines()
        same = sorted(by_row) == sorted(lines.by_batch)
        yield f"{mode} mode: foreach wrote the same {len(by_row)} lines: {same}"
