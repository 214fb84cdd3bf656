"""Sliding windows over rack temperatures, in update and in append mode.

The windows are ten minutes long and start every five minutes, so each reading lies in two. In
update mode a batch writes the windows that changed. In append mode each window is written once,
after the watermark (ten minutes behind the newest reading) has passed its end.

Notice: In append mode the last windows wait for a later reading: 08:35 moves the watermark to
08:25, and 08:50 moves it to 08:40. Without a later reading they wait for ever, which is why the
producer has the option `--flush`.
In production: `rack_temperature` is this function.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from events.constants import FLEET_SCOPE
from lessons.harness.context import LessonContext
from spark_jobs.telemetry.rack_temperature import rack_temperatures


def run(context: LessonContext) -> Iterator[str]:
    """Show the racks' windows per batch in both modes."""
    readings = context.stream(
        "rack_id string, temperature_c double, event_time timestamp", "1.json", "2.json", "3.json"
    )
    averages = rack_temperatures(readings, "10 minutes", "5 minutes", "10 minutes")
    windows = averages.where(F.col("scope") != FLEET_SCOPE).select(
        F.date_format("window_start", "HH:mm").alias("start"),
        F.date_format("window_end", "HH:mm").alias("end"),
        F.col("scope").alias("rack"),
        F.col("temperature_c_avg").alias("avg_temp"),
    )
    for mode in ("update", "append"):
        yield mode
        yield from context.run_batches(windows, mode, mode)
