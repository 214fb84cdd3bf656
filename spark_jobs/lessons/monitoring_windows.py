"""Windows at moments of their own: monitoring times from a table, joined with the stream.

`window` knows windows of one length at equal distances. Windows that begin at any time and differ in length come from
a table: a join with a condition on time puts every reading into all windows that it lies in.

Notice: The reading of 08:01:02 lies in `visit`, which begins then, and not in `night round`, which ends then. Windows
may overlap: rack1's 100.5 counts in two.
In production: Nothing yet: maintenance times of a rack, in which its alerts are muted, would be such windows.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def averages(readings: DataFrame, windows: DataFrame) -> DataFrame:
    """Return the average temperature per monitoring window and rack; windows are half open."""
    inside = (F.col("event_time") >= F.col("start")) & (F.col("event_time") < F.col("end"))
    joined = readings.join(F.broadcast(windows), on=inside, how="inner")
    return joined.groupBy("window", "rack_id").agg(
        F.count("*").alias("readings"), F.avg("temperature_c").alias("avg")
    )


def run(lab: Lab) -> Iterator[str]:
    """Average rack temperatures in three windows at random times."""
    readings = lab.stream("rack_id string, temperature_c double, event_time timestamp", "readings.json")
    reader = lab.spark.read.schema("window string, start timestamp, end timestamp").option("header", True)
    yield from lab.batches(averages(readings, reader.csv(str(lab.data / "windows.csv"))), "update")
