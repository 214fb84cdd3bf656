"""Define what jobs with windows share: the output modes, and the bounds of a window."""

from typing import Annotated, Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from events.constants import CLOSED_WINDOW_HEADER
from spark_jobs.runtime.kafka_io import INSTANT_FORMAT, header_column

OutputMode = Annotated[
    Literal["update", "append"],
    "update: write a window whenever it changes. append: write it once, when it is closed "
    "(not in real time).",
]
"""The option `output_mode` of a job that has these two modes."""


def window_bounds() -> list[Column]:
    """Return `window_start` and `window_end`, from the column `window`."""
    return [F.col(f"window.{edge}").alias(f"window_{edge}") for edge in ("start", "end")]


def window_key() -> Column:
    """Return the window's part of a record's key: `window_start` and `window_end` as text."""
    edges = [
        F.date_format(name, INSTANT_FORMAT["timestampFormat"])
        for name in ("window_start", "window_end")
    ]
    return F.concat_ws("|", *edges)


def mark_closed(records: DataFrame) -> DataFrame:
    """Return the records of closed windows with the header that tells them from updates."""
    name, state = CLOSED_WINDOW_HEADER
    return records.withColumn("headers", header_column({name: F.lit(state.decode())}))


def interval_us(spark: SparkSession, interval: str) -> int:
    """Return the microseconds of an interval in Spark's words, such as `10 minutes`."""
    seconds = f"cast(INTERVAL '{interval}' as interval second)"
    (row,) = spark.sql(f"select cast({seconds} * 1000000 as bigint) as us").collect()
    return int(row["us"])
