"""Alert on too few records per window, with foreach and foreachBatch, in two output modes.

A device with fewer than five records in five seconds gets an alert line. The count is final only
when the window has closed, so the counts have to come in append mode. In update mode every window
starts with too few.

Notice: Update mode alerts on windows that are still filling, and repeatedly on the last one. Append
mode judges each closed window once. The last window of device 4 is still open.
In production: An alert is decided on final data or corrected by a later alert. `lost_signal`
reports racks that send too few readings.
"""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end
from lessons.sensor_counts import counts_per_device, processed

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
    """Write alerts in both modes with both sinks."""
    counts = too_few(counts_per_device(processed(context)))
    for mode in ("update", "append"):
        lines = context.folder / f"{mode}.txt"

        def write_line(row: Row, lines: Path = lines) -> None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(f"  {alert(row)}\n")

        written: list[str] = []

        def write_batch(rows: DataFrame, _number: int, written: list[str] = written) -> None:
            written.extend(f"  {alert(row)}" for row in rows.orderBy("start", "deviceId").collect())

        writer = counts.writeStream.outputMode(mode).trigger(availableNow=True)
        await_end(writer.foreach(write_line).start())
        await_end(writer.foreachBatch(write_batch).start())
        by_foreach = lines.read_text(encoding="utf-8").splitlines()
        same = sorted(by_foreach) == sorted(written)
        yield f"{mode} mode, foreachBatch; foreach wrote the same lines: {same}"
        yield "\n".join(written)
