"""Sliding windows over rack temperatures: the averages in update mode, and what append still keeps back.

Windows of ten minutes, every five: each reading lies in two. In update mode a batch gives the windows that changed.
In append mode a window is given once, when the watermark (ten minutes behind the newest reading) has passed its end.

Notice: In append the last windows wait for a later reading: that of 08:35 brings the watermark to 08:25, that of
08:50 to 08:40. Without a later reading they would wait for ever; that is why a producer can be told to `--flush`.
In production: `rack_temperature` is this very function.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab
from spark_jobs.rack_temperature import FLEET, rack_temperatures


def run(lab: Lab) -> Iterator[str]:
    """Show the racks' windows by batch in both modes."""
    readings = lab.stream(
        "rack_id string, temperature_c double, event_time timestamp", "1.json", "2.json", "3.json"
    )
    averages = rack_temperatures(readings, "10 minutes", "5 minutes", "10 minutes")
    shown = averages.where(F.col("scope") != FLEET).select(
        F.date_format("window_start", "HH:mm").alias("start"),
        F.date_format("window_end", "HH:mm").alias("end"),
        F.col("scope").alias("rack"),
        F.col("temperature_c_avg").alias("avg_temp"),
    )
    for mode in ("update", "append"):
        yield mode
        yield from lab.batches(shown, mode, mode)
