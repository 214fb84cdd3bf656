"""Parse a topic's records by the cheapest parser that gives the strict parser's result.

`_strict` says for every value what it holds or what is wrong with it. `_canonical` recognises in
the JVM what the producer writes, and `_arrow` parses short, valid values in Python. Both leave all
other values to the strict parser, in the same query.
"""

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.constants import FUTURE_TOLERANCE
from events.times import to_interval
from spark_jobs.runtime.parsing import _arrow, _canonical, _strict
from spark_jobs.runtime.parsing.batches import Batches


def parse(
    raw: DataFrame,
    record: type[msgspec.Struct],
    *,
    in_jvm: bool = False,
    fields: tuple[str, ...] | None = None,
    batches: Batches | None = None,
    by_event_time: bool = False,
) -> DataFrame:
    """Return the records of a topic as columns.

    In: Kafka's columns. `in_jvm` says that no value may be parsed in Python. With `fields` named,
    only those are needed.

    Out: Kafka's columns, the fields of `record` with their Spark types (instants as timestamps),
    and `error`: null, or the sentence that says why the record could not be read. With an error the
    fields mean nothing.

    With `batches` most valid records are in batches instead: the column `batch` has a row of
    `batches`, or is null where a record has a row of its own. A job `by_event_time` gets no record
    in a batch that `is_future`; this needs `timestamp` and `event_time` in `batches`.

    Raises `ValueError` for `batches` together with `in_jvm` or `fields`.
    """
    if batches:
        if in_jvm or fields:
            raise ValueError("batches are made in Python, and name their own fields")
        return _arrow.parse_in_batches(raw, record, batches, by_event_time=by_event_time)
    if in_jvm or not _arrow.supports(record):
        return _strict.parse_strictly(raw, record)
    return _arrow.parse_with_arrow(raw, record, fields)


def dead_letter_candidates(raw: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return the records of a topic that may be dead letters, in Kafka's columns.

    The others are canonical, and no event among them is ahead of its append time.
    """
    return _canonical.non_canonical(raw, record)


def is_future() -> Column:
    """Tell whether a parsed record's event time is too far ahead of its append time."""
    tolerance = F.expr(f"INTERVAL {to_interval(FUTURE_TOLERANCE)}")
    return F.col("event_time") > F.col("timestamp") + tolerance


def is_left_out(*, by_event_time: bool) -> Column:
    """Tell whether a job leaves a parsed record out.

    It leaves out what cannot be read. Event-time jobs also leave out the future: one wrong clock
    would make all other events late. Batches are used: they have neither an error nor a time.
    """
    unreadable = F.col("error").isNotNull()
    in_future = F.coalesce(is_future(), F.lit(False))
    return unreadable | in_future if by_event_time else unreadable


def readable(parsed: DataFrame, *, by_event_time: bool = False) -> DataFrame:
    """Return the records that a job uses."""
    return parsed.where(~is_left_out(by_event_time=by_event_time)).drop("error")
