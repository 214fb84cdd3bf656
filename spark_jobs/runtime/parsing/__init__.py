"""Parse a topic's records by the cheapest parser that gives the strict parser's result.

`strict` says for every value what it holds or what is wrong with it. `_canonical` recognises in the
JVM what the producer writes, and `_arrow` parses short, valid values in Python. Both leave all
other values to the strict parser, in the same query.
"""

from collections.abc import Callable

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.constants import FUTURE_TOLERANCE
from events.times import to_interval
from spark_jobs.runtime.parsing import _arrow, _canonical, strict
from spark_jobs.runtime.triggers import Trigger

POSITION = ("timestamp", "partition", "offset")
"""Kafka's columns that order the records of a topic."""


def parse(
    raw: DataFrame,
    record: type[msgspec.Struct],
    trigger: Trigger,
    fields: tuple[str, ...] | None = None,
) -> DataFrame:
    """Return the records of a topic as columns (`strict.parse`).

    With `fields` named, only those are needed. Real-time Mode counts milliseconds, so there values
    stay in the JVM.
    """
    if trigger is Trigger.REAL_TIME or not _arrow.supports(record):
        return strict.parse(raw, record)
    return _arrow.parse_with_arrow(raw, record, fields)


def parse_in_batches(
    raw: DataFrame,
    record: type[msgspec.Struct],
    fields: tuple[str, ...],
    to_batches: Callable[[pa.RecordBatch], pa.RecordBatch],
    batch: T.StructType,
    *,
    position: tuple[str, ...] = POSITION,
    by_event_time: bool = False,
) -> DataFrame:
    """Return most valid records in batches, and each of the others in a row of its own.

    `to_batches` takes records in Arrow columns: the `fields`, and Kafka's columns `position`. It
    returns at most as many rows of the type `batch`. With `by_event_time`, which needs Kafka's
    `timestamp`, no record in a batch `is_future`.

    Out: `batch`, or where it is null what `strict.parse` returns.
    """
    return _arrow.parse_in_batches(
        raw, record, fields, to_batches, batch, position=position, by_event_time=by_event_time
    )


def parse_dead_letter_candidates(raw: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return the records that may be dead letters, parsed (`strict.parse`)."""
    return strict.parse(_canonical.non_canonical(raw, record), record)


def is_future() -> Column:
    """Tell whether a parsed record's event time is too far ahead of its append time."""
    tolerance = F.expr(f"INTERVAL {to_interval(FUTURE_TOLERANCE)}")
    return F.col("event_time") > F.col("timestamp") + tolerance


def is_left_out(*, by_event_time: bool) -> Column:
    """Tell whether a job leaves a parsed record out.

    It leaves out what cannot be read. Jobs by event time also leave out the future: one wrong clock
    would make all other events late. Batches are used: they have neither an error nor a time.
    """
    unreadable = F.col("error").isNotNull()
    in_future = F.coalesce(is_future(), F.lit(False))
    return unreadable | in_future if by_event_time else unreadable


def readable(parsed: DataFrame, *, by_event_time: bool = False) -> DataFrame:
    """Return the records that a job uses."""
    return parsed.where(~is_left_out(by_event_time=by_event_time)).drop("error")
