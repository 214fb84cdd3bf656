"""Build tables of events whose times are short texts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

DAY = "2026-11-18"
_TYPES = {"string": pa.string(), "double": pa.float64(), "decimal(18,2)": pa.decimal128(18, 2)}


def events(spark: SparkSession, columns: str, rows: Sequence[Sequence[Any]]) -> DataFrame:
    """Return a table of events of one day.

    `columns` are names and types; `event_time` is given as text, such as `10:03:50`.
    """
    names, types = zip(*(column.split() for column in columns.split(", ")), strict=True)
    arrays = []
    for index, (name, kind) in enumerate(zip(names, types, strict=True)):
        values = [row[index] for row in rows]
        if name == "event_time":
            moments = [datetime.fromisoformat(f"{DAY}T{value}+00:00") for value in values]
            arrays.append(pa.array(moments, pa.timestamp("us", "UTC")))
        else:
            arrays.append(pa.array(values, _TYPES[kind]))
    return spark.createDataFrame(pa.table(arrays, names=list(names)))


def clock(moment: datetime | None) -> str | None:
    """Return `10:03:50` for a moment, with milliseconds if it has any; None for none."""
    if moment is None:
        return None
    return f"{moment:%H:%M:%S}" + (
        f".{moment.microsecond // 1000:03d}" if moment.microsecond else ""
    )


def at(seconds: float) -> str:
    """Return the time so many seconds after ten o'clock, such as `10:00:00.000`."""
    moment = datetime(2000, 1, 1, 10) + timedelta(seconds=seconds)  # noqa: DTZ001 - a clock, not a moment
    return moment.strftime("%H:%M:%S.%f")[:-3]
