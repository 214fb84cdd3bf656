"""Windows of irregular start and length: join the stream with a table of windows.

`window` makes windows of equal length at equal distances. Windows with any start and length come
from a table: a join on a time condition assigns each reading to every window that contains it.

Notice: The reading of 08:01:02 lies in `visit`, which begins then, and not in `night round`, which
ends then. Windows may overlap: the 100.5 of rack1 counts in two.
In production: No job uses it. Maintenance windows are silences of `alerting`, which mute notices
about a rack until a given time; the rules, such as `overheating`, evaluate its readings all the
same.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def averages(readings: DataFrame, windows: DataFrame) -> DataFrame:
    """Return the average temperature per monitoring window and rack; windows are half open."""
    inside = (F.col("event_time") >= F.col("start")) & (F.col("event_time") < F.col("end"))
    joined = readings.join(F.broadcast(windows), on=inside, how="inner")
    return joined.groupBy("window", "rack_id").agg(
        F.count("*").alias("readings"), F.avg("temperature_c").alias("avg")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Average rack temperatures in three irregular windows."""
    readings = context.stream(
        "rack_id string, temperature_c double, event_time timestamp", "readings.json"
    )
    reader = context.spark.read.schema("window string, start timestamp, end timestamp").option(
        "header", True
    )
    yield from context.run_batches(
        averages(readings, reader.csv(str(context.data / "windows.csv"))), "update"
    )
