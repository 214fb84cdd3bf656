"""Fewer than five in a window: an alert through foreach and through foreachBatch, and when it may be judged.

A device that reported fewer than five times in five seconds gets a line. Whether it did is known when the window is
over, so the counts have to come in append mode. In update mode every window begins with too few.

Notice: In update mode there are alerts for windows that were still filling, and the last window's again and again; in
append mode each window that is over is judged once. Device 4's last window is still open.
In production: Alerts are decided on what cannot change any more, or corrected by a later alert; `silent_sensor` tells
of devices that report too little.
"""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish
from spark_jobs.lessons.sensor_counts import counts_per_device, processed

FEWER_THAN = 5


def alert(row: Row) -> str:
    """Return the line for a window with too few records."""
    when = f"Between {row.start} and {row.end}"
    return f"ALERT from Sensors: {when}, device {row.deviceId} reported only {row['count']} times"


def too_few(counts: DataFrame) -> DataFrame:
    """Return `start`, `end`, `deviceId` and `count` of windows with fewer than five records."""
    start, end = (F.date_format(f"window.{edge}", "HH:mm:ss").alias(edge) for edge in ("start", "end"))
    return counts.where(F.col("count") < FEWER_THAN).select(start, end, "deviceId", "count")


def run(lab: Lab) -> Iterator[str]:
    """Alert in both modes, through both sinks."""
    counts = too_few(counts_per_device(processed(lab)))
    for mode in ("update", "append"):
        lines = lab.folder / f"{mode}.txt"

        def tell(row: Row, lines: Path = lines) -> None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(f"  {alert(row)}\n")

        told: list[str] = []

        def tell_all(rows: DataFrame, _number: int, told: list[str] = told) -> None:
            told.extend(f"  {alert(row)}" for row in rows.orderBy("start", "deviceId").collect())

        writer = counts.writeStream.outputMode(mode).trigger(availableNow=True)
        finish(writer.foreach(tell).start())
        finish(writer.foreachBatch(tell_all).start())
        by_foreach = lines.read_text(encoding="utf-8").splitlines()
        yield f"{mode}, foreachBatch; foreach told the same: {sorted(by_foreach) == sorted(told)}"
        yield "\n".join(told)
