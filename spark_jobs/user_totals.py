"""How much has each user bought? Topics: `user-actions` to `user-totals`.

A user's running total of purchases, in cents exact, after each batch that has one; the last record of a user counts.
`--keep for-ever` (the default) adds up all there ever were, in one small state a user that is never forgotten. With
`--keep expiring` a total begins anew after an hour of event time without a purchase, and a timer at the watermark
(10 minutes) clears the state of those whose hour is over.

Repeats are removed by `event_id` before, with ids remembered for twice the watermark: a purchase that is older than
the watermark is dropped, since nobody could tell whether it is a repeat. So a total may be too small by what came too
late (the progress has how many), and never too big.

What it gets wrong, beside that: nothing tells a reader that a total has expired, until the user's next purchase.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from events.topics import USER_ACTIONS, USER_TOTALS
from spark_jobs.job import EXPIRING, FOR_EVER, Job, JobOptions, Plan
from spark_jobs.kafka import to_record
from spark_jobs.triggers import Trigger

LIFETIME_MS = 3_600_000
"""How long after a purchase its total still lives, in event time, where totals expire."""

_MONEY = T.DecimalType(38, 2)
# StructType and no text: the worker that opens the state has no JVM to parse text with.
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
    """Purchases of one user that share a total. Times are event times in epoch milliseconds."""

    first_ms: int
    last_ms: int
    amount_total: Decimal
    purchase_count: int


def with_purchase(runs: list[Run], at_ms: int, amount: Decimal, lifetime_ms: int | None) -> list[Run]:
    """Return a user's runs, oldest first, after one more purchase; it may prolong a run, or make one of two.

    Two purchases share a total when the later comes at most `lifetime_ms` after the earlier, or after one that shares
    it: by event time alone, so that neither batches nor the order of arrival decide.
    """
    merged = Run(at_ms, at_ms, amount, 1)
    apart = []
    for run in runs:
        near = lifetime_ms is None or (
            run.first_ms - lifetime_ms <= merged.last_ms and merged.first_ms <= run.last_ms + lifetime_ms
        )
        if near:
            merged = Run(
                min(run.first_ms, merged.first_ms),
                max(run.last_ms, merged.last_ms),
                run.amount_total + merged.amount_total,
                run.purchase_count + merged.purchase_count,
            )
        else:
            apart.append(run)
    return sorted([*apart, merged], key=lambda run: run.first_ms)


def user_totals(actions: DataFrame, watermark: str, lifetime_ms: int | None) -> DataFrame:
    """Return a row of `UserTotal` for each user and batch with a purchase; append mode only.

    In: `event_id`, `event_time`, `user_id`, `action`, `amount`. `lifetime_ms` None: for ever.
    """
    purchases = (
        actions.where(F.col("action") == "purchase")
        .withWatermark("event_time", watermark)
        .dropDuplicatesWithinWatermark(["event_id"])
        .select("user_id", "event_time", F.unix_millis("event_time").alias("at_ms"), "amount")
    )
    totals = purchases.groupBy("user_id").transformWithState(
        TotalsProcessor(lifetime_ms),
        outputStructType=_TOTAL,
        outputMode="Append",
        timeMode="None" if lifetime_ms is None else "EventTime",
    )
    return totals.select(
        "user_id", F.timestamp_millis("event_time_ms").alias("event_time"), "amount_total", "purchase_count"
    )


class TotalsProcessor(StatefulProcessor):
    """Adds up one user's purchases. One state read and one write per user and batch, one timer per run."""

    def __init__(self, lifetime_ms: int | None) -> None:
        self._lifetime_ms = lifetime_ms

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
        """Take the user's purchases of this batch; give the newest total when it is another than before."""
        before = self._runs()
        runs = before
        for row in rows:
            runs = with_purchase(runs, row["at_ms"], row["amount"], self._lifetime_ms)
        self._keep(runs)
        if self._lifetime_ms is not None:
            for run in runs:
                self._handle.registerTimer(run.last_ms + self._lifetime_ms)
        newest = runs[-1]
        if newest not in before:
            yield Row(
                user_id=key[0],
                event_time_ms=newest.last_ms,
                amount_total=newest.amount_total,
                purchase_count=newest.purchase_count,
            )

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803, ARG002
    ) -> Iterator[Row]:
        """Forget the runs that no purchase can prolong any more: none older than the watermark comes."""
        watermark_ms = timerValues.getCurrentWatermarkInMs()
        lifetime_ms = self._lifetime_ms or 0
        alive = [run for run in self._runs() if run.last_ms + lifetime_ms > watermark_ms]
        if alive:
            self._keep(alive)
        else:
            self._state.clear()
        return iter(())

    def _runs(self) -> list[Run]:
        stored = self._state.get()
        return [Run(*run) for run in stored[0]] if stored else []

    def _keep(self, runs: list[Run]) -> None:
        fields = [(run.first_ms, run.last_ms, run.amount_total, run.purchase_count) for run in runs]
        self._state.update((fields,))


def _records(actions: DataFrame, options: JobOptions) -> DataFrame:
    totals = user_totals(actions, options.lateness, LIFETIME_MS if options.keep == EXPIRING else None)
    return totals.select(*to_record(F.col("user_id"), *totals.columns))


JOB = Job(
    name="user_totals",
    source=USER_ACTIONS,
    sink=USER_TOTALS,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("keep", "watermark"),
    defaults={"keep": FOR_EVER},
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
