"""Summarise events by pane in Python, so that the JVM puts fewer rows into windows.

A pane is a part of event time whose events all belong to the same windows (Li, Maier, Tufte,
Papadimos, Tucker: No Pane, No Gain, SIGMOD Record 2005). A window has the same count, sum, least
and greatest value over the summaries of its panes as over its events.
"""

import math
from collections.abc import Iterable
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from spark_jobs.runtime.parsing.batches import Batches

_SUMMARY = {
    "event_time": T.TimestampType(),
    "event_count": T.LongType(),
    "total": T.DoubleType(),
    "lowest": T.DoubleType(),
    "highest": T.DoubleType(),
}
_AGGREGATES = [
    ("event_time", "max"),
    ("value", "count"),
    ("value", "sum"),
    ("value", "min"),
    ("value", "max"),
]
"""What Arrow computes for the columns of `_SUMMARY`, in their order."""


def pane_batches(keys: tuple[str, ...], value: str, lengths_us: tuple[int, int]) -> Batches:
    """Return the batches that `summaries` takes, for an event-time job.

    `keys` are the text fields that are the key, and `value` is the field to summarise. `lengths_us`
    are the length and the slide of the windows, in microseconds.
    """
    fields = [T.StructField(key, T.StringType()) for key in keys]
    fields += [T.StructField(name, kind) for name, kind in _SUMMARY.items()]
    return Batches(
        fields=(*keys, "event_time", value),
        position=("timestamp",),
        convert=partial(summarise, keys=keys, value=value, pane_us=math.gcd(*lengths_us)),
        row=T.StructType(fields),
    )


def summaries(records: DataFrame, keys: tuple[str, ...], value: str) -> DataFrame:
    """Return summaries of events, each of one key and pane. A key may have several for a pane.

    In: the plan's input with `pane_batches`. Out: `keys`, and the columns of `summary_of_one`.
    """
    fallback_columns = {key: F.col(key) for key in keys} | summary_of_one(value)
    return records.select(
        *[
            F.coalesce(f"batch.{name}", column).alias(name)
            for name, column in fallback_columns.items()
        ]
    )


def summary_of_one(value: str) -> dict[str, Column]:
    """Return the columns of the summary of a single event.

    `event_time` of the latest event, `event_count`, and of the values `total`, `lowest` and
    `highest`.
    """
    columns = (F.col("event_time"), F.lit(1), *[F.col(value)] * 3)
    return dict(zip(_SUMMARY, columns, strict=True))


def summarise(
    events: pa.RecordBatch, keys: Iterable[str], value: str, pane_us: int
) -> pa.RecordBatch:
    """Return a summary for each key and pane that has events."""
    # Not Arrow's division: it rounds times before 1970 up.
    pane = np.floor_divide(events["event_time"].cast(pa.int64()).to_numpy(), pane_us)
    by_key = {key: events[key] for key in keys}
    columns = {"pane": pane, "event_time": events["event_time"], "value": events[value]}
    # One thread: Spark runs a task per processor.
    grouped = pa.table(by_key | columns).group_by([*by_key, "pane"], use_threads=False)
    found = grouped.aggregate(_AGGREGATES)
    results = [*by_key, *(f"{name}_{function}" for name, function in _AGGREGATES)]
    return pa.record_batch(
        [found[name].combine_chunks() for name in results], names=[*by_key, *_SUMMARY]
    )
