"""How much has each user bought?

Topics: `user-actions` -> `user-totals`. No window. Watermark: 10 minutes.

A user's running total of purchases, exact to the cent, after each batch that has one; a user's last
record counts. With unbounded retention (the default) a total sums all purchases ever, and a user's
small state is never removed. With a time to live, a total starts anew after an hour of event time
without a purchase, and a timer at the watermark removes the state of those whose hour is over.

Duplicates are removed by `event_id` before. A purchase that is older than the watermark is dropped,
since nobody could tell whether it is a duplicate (`docs/clickstream.md`).

Limitations: a total may be too small by the purchases that came too late, never too large; the
query's progress has their number. Nothing tells a reader that a total has expired until the user's
next purchase.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from events.constants import TOTAL_EXPIRES_AFTER, WATERMARK
from events.times import duration_ms, to_interval
from events.topics import USER_ACTIONS, USER_TOTALS
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.options import JobOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `user_totals`."""

    state_retention: Annotated[
        Literal["unbounded", "ttl"],
        "unbounded: a total never expires. "
        f"ttl: it starts again after {to_interval(TOTAL_EXPIRES_AFTER)} of event time without a "
        "purchase.",
    ] = "unbounded"
    watermark: Annotated[str, "How late a purchase may be and still count."] = to_interval(
        WATERMARK
    )


_MONEY = T.DecimalType(38, 2)
# A StructType instead of DDL text: the worker that opens the state has no JVM to parse text with.
_RUN = (
    T.StructType()
    .add("first_ms", T.LongType())
    .add("last_ms", T.LongType())
    .add("amount_total", _MONEY)
    .add("purchase_count", T.LongType())
)
_STATE = T.StructType().add("runs", T.ArrayType(_RUN))
_TOTAL = (
    T.StructType()
    .add("user_id", T.StringType())
    .add("event_time_ms", T.LongType())
    .add("amount_total", _MONEY)
    .add("purchase_count", T.LongType())
)


@dataclass(slots=True)
class Run:
    """The purchases of one user that share a total; event times in epoch milliseconds."""

    first_ms: int
    last_ms: int
    amount_total: Decimal
    purchase_count: int


def add_purchase(runs: list[Run], at_ms: int, amount: Decimal, ttl_ms: int | None) -> list[Run]:
    """Return a user's runs after one more purchase, oldest first.

    A purchase may extend a run, or merge two. It shares a total with every purchase that is at most
    `ttl_ms` away, and with those that share theirs. Only event times decide this, so neither the
    batches nor the order of arrival matter.
    """
    merged = Run(at_ms, at_ms, amount, 1)
    others = []
    for run in runs:
        is_near = ttl_ms is None or (
            run.first_ms - ttl_ms <= merged.last_ms and merged.first_ms <= run.last_ms + ttl_ms
        )
        if is_near:
            merged = Run(
                min(run.first_ms, merged.first_ms),
                max(run.last_ms, merged.last_ms),
                run.amount_total + merged.amount_total,
                run.purchase_count + merged.purchase_count,
            )
        else:
            others.append(run)
    return sorted([*others, merged], key=lambda run: run.first_ms)


def user_totals(actions: DataFrame, watermark: str, ttl_ms: int | None) -> DataFrame:
    """Return a row of `UserTotal` for each user and batch with a purchase; append mode only.

    In: `event_id`, `event_time`, `user_id`, `action`, `amount`. With `ttl_ms` None totals never
    expire.
    """
    purchases = (
        actions.where(F.col("action") == "purchase")
        .withWatermark("event_time", watermark)
        .dropDuplicatesWithinWatermark(["event_id"])
        .select("user_id", "event_time", F.unix_millis("event_time").alias("at_ms"), "amount")
    )
    totals = purchases.groupBy("user_id").transformWithState(
        TotalsProcessor(ttl_ms),
        outputStructType=_TOTAL,
        outputMode="Append",
        timeMode="None" if ttl_ms is None else "EventTime",
    )
    return totals.select(
        "user_id",
        F.timestamp_millis("event_time_ms").alias("event_time"),
        "amount_total",
        "purchase_count",
    )


class TotalsProcessor(StatefulProcessor):
    """Sums one user's purchases, with one read and write of the state per user and batch."""

    def __init__(self, ttl_ms: int | None) -> None:
        self._ttl_ms = ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the user's one state."""
        self._handle = handle
        self._state = handle.getValueState("totals", _STATE)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; without pandas, rows come
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[Row]:
        """Add the user's purchases of this batch; return the latest total if it has changed."""
        before = self._runs()
        runs = before
        for row in rows:
            runs = add_purchase(runs, row["at_ms"], row["amount"], self._ttl_ms)
        self._store(runs)
        if self._ttl_ms is not None:
            for run in runs:
                self._handle.registerTimer(run.last_ms + self._ttl_ms)
        latest = runs[-1]
        if latest not in before:
            yield Row(
                user_id=key[0],
                event_time_ms=latest.last_ms,
                amount_total=latest.amount_total,
                purchase_count=latest.purchase_count,
            )

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803, ARG002
    ) -> Iterator[Row]:
        """Remove the runs that no purchase can extend, as none older than the watermark comes."""
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        ttl_ms = self._ttl_ms or 0
        alive = [run for run in self._runs() if run.last_ms + ttl_ms > watermark_ms]
        if alive:
            self._store(alive)
        else:
            self._state.clear()
        return iter(())

    def _runs(self) -> list[Run]:
        stored = self._state.get()
        return [Run(*run) for run in stored[0]] if stored else []

    def _store(self, runs: list[Run]) -> None:
        fields = [(run.first_ms, run.last_ms, run.amount_total, run.purchase_count) for run in runs]
        self._state.update((fields,))


def _records(actions: DataFrame, options: Options) -> DataFrame:
    ttl_ms = duration_ms(TOTAL_EXPIRES_AFTER) if options.state_retention == "ttl" else None
    totals = user_totals(actions, options.watermark, ttl_ms)
    return totals.select(*to_record(F.col("user_id"), *totals.columns))


JOB = Job(
    name="user_totals",
    sources=(USER_ACTIONS,),
    sink=USER_TOTALS,
    by_event_time=True,
    state_version="v1",
    options=Options,
    plans=dict.fromkeys(
        (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), Plan("micro-batch", _records, ("append",))
    ),
)
