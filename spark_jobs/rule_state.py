"""Rules as Python state: one small machine per subject, fed with its rows in the topic's order, and by a clock.

A rule is a `Machine`: plain Python that knows nothing of Spark. Here is what every such rule needs of it: its state
kept between batches as bytes, rows sorted, one timer, and decisions as rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from events.rules import Rules
from spark_jobs.alerts import alert_record

_EVIDENCE = (
    T.StructType()
    .add("event_id", T.StringType())
    .add("sequence", T.LongType())
    .add("event_time", T.LongType())
    .add("temperature_c", T.DoubleType())
    .add("signal_strength", T.DoubleType())
)
_DECISION = (
    T.StructType()
    .add("subject", T.StringType())
    .add("site_id", T.StringType())
    .add("state", T.StringType())
    .add("severity", T.StringType())
    .add("event_time", T.LongType())
    .add("decider", T.StringType())
    .add("summary", T.StringType())
    .add("evidence", T.ArrayType(_EVIDENCE))
)
# StructType and no text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add("machine", T.BinaryType()).add("timer_ms", T.LongType())


class Reading(NamedTuple):
    """A reading as evidence; ordered by `sequence`, then `event_id`. `event_time` in epoch microseconds."""

    sequence: int
    event_id: str
    event_time: int
    temperature_c: float
    signal_strength: float

    @classmethod
    def of(cls, row: Row) -> "Reading":
        """Take a reading out of a row of `ordered_readings`."""
        return cls(*(row[name] for name in cls._fields))


class Decision(NamedTuple):
    """A change of state or severity. `severity` None is that of a `NORMAL`; `event_time` in epoch microseconds."""

    site_id: str
    severity: str | None
    event_time: int
    decider: str
    summary: str = ""
    evidence: tuple[Reading, ...] = ()


class Machine(Struct):
    """What is kept of one subject. A rule derives from it, its fields being the state, all with defaults."""

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in what rules and inventory say of the subject: called with a row of each batch, as both may change."""

    def await_first(self, now_ms: int) -> None:
        """Begin without a row, at this wall clock: only of subjects that are known beforehand."""

    def take(self, subject: str, row: Row) -> Iterator[Decision]:
        """Take the subject's next row of the topic."""
        raise NotImplementedError

    def rest(self, subject: str) -> Iterator[Decision]:  # noqa: ARG002 - for rules that need all rows of a batch
        """Decide, after the last row of a batch, what the rows alone could not."""
        return iter(())

    def tick(self, subject: str, now_ms: int) -> Iterator[Decision]:  # noqa: ARG002 - for rules with a clock
        """Decide what time alone decides; `now_ms` is the wall clock or the watermark, in epoch milliseconds."""
        return iter(())

    def due_ms(self) -> int | None:
        """Return the earliest clock at which `tick` could decide something; None: only rows can."""
        return None


def decisions(
    rows: DataFrame,
    key: str,
    machine: type[Machine],
    rules: Rules,
    time_mode: str = "None",
    known: DataFrame | None = None,
) -> DataFrame:
    """Return a row per decision with what `alerts.alert_record` takes; `evidence` has `signal_strength` too.

    In: `key`, the subject; `append_ms`, `partition` and `offset`, by which a subject's rows are ordered; and what
    `machine` takes. `time_mode` says what the machine's clock is: none, ProcessingTime or EventTime (the watermark).
    Subjects that are `known` (a row each, with `key`) have a machine from the first batch on.
    """
    grouped = rows.groupBy(key).transformWithState(
        RuleProcessor(machine, rules, is_by_watermark=time_mode == "EventTime"),
        outputStructType=_DECISION,
        outputMode="Append",
        timeMode=time_mode,
        initialState=None if known is None else known.groupBy(key),
    )
    return grouped.withColumns(
        {
            "event_time": F.timestamp_micros("event_time"),
            "evidence": F.transform(
                "evidence", lambda r: r.withField("event_time", F.timestamp_micros(r["event_time"]))
            ),
        }
    )


def plain_alerts(found: DataFrame, rule: str) -> DataFrame:
    """Return decisions as records of alerts, their evidence without the signal strength, which one rule decides by."""
    plain = F.transform("evidence", lambda reading: reading.dropFields("signal_strength"))
    return found.withColumn("evidence", plain).select(*alert_record(rule))


class RuleProcessor(StatefulProcessor):
    """Runs machines. One state read and one write per subject and batch; one timer, set anew only when it is over."""

    def __init__(self, machine: type[Machine], rules: Rules, *, is_by_watermark: bool = False) -> None:
        self._type, self._rules, self._is_by_watermark = machine, rules, is_by_watermark

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the subject's one state."""
        self._handle = handle
        self._state = handle.getValueState("machine", _STATE)
        self._decoder = msgspec.msgpack.Decoder(self._type)

    def handleInitialState(  # type: ignore[override] # noqa: N802 - Spark's name
        self,
        key: Any,  # noqa: ARG002
        initialState: Row,  # noqa: N803 - Spark's name
        timerValues: TimerValues,  # noqa: N803
    ) -> None:
        """Begin with a subject of which no row has come yet."""
        machine = self._type()
        machine.learn(initialState, self._rules)
        machine.await_first(timerValues.getCurrentProcessingTimeInMs())
        self._keep(machine, None)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; without pandas, rows come
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[Row]:
        """Take the subject's rows of this batch in the topic's order."""
        batch = sorted(rows, key=lambda row: (row["append_ms"], row["partition"], row["offset"]))
        stored = self._state.get()
        machine = self._decoder.decode(stored[0]) if stored else self._type()
        machine.learn(batch[0], self._rules)
        for row in batch:
            for decision in machine.take(key[0], row):
                yield _as_row(key[0], decision)
        for decision in machine.rest(key[0]):
            yield _as_row(key[0], decision)
        self._keep(machine, stored[1] if stored else None)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Let the machine look at the clock."""
        stored = self._state.get()
        if stored is None or stored[1] != expiredTimerInfo.getExpiryTimeInMs():
            return  # an earlier one was set since
        machine = self._decoder.decode(stored[0])
        now_ms = (
            timerValues.getCurrentWatermarkInMs()
            if self._is_by_watermark
            else timerValues.getCurrentProcessingTimeInMs()
        )
        for decision in machine.tick(key[0], now_ms):
            yield _as_row(key[0], decision)
        self._keep(machine, None)

    def _keep(self, machine: Machine, timer_ms: int | None) -> None:
        due_ms = machine.due_ms()
        # A timer fires when the clock is past it, and not yet when it is there.
        if due_ms is not None and (timer_ms is None or due_ms - 1 < timer_ms):
            timer_ms = due_ms - 1
            self._handle.registerTimer(timer_ms)
        self._state.update((msgspec.msgpack.encode(machine), timer_ms))


def _as_row(subject: str, decision: Decision) -> Row:
    return Row(
        subject=subject,
        site_id=decision.site_id,
        state="NORMAL" if decision.severity is None else "WARNING",
        severity=decision.severity or "info",
        event_time=decision.event_time,
        decider=decision.decider,
        summary=decision.summary,
        evidence=[
            Row(
                event_id=of.event_id,
                sequence=of.sequence,
                event_time=of.event_time,
                temperature_c=of.temperature_c,
                signal_strength=of.signal_strength,
            )
            for of in decision.evidence
        ],
    )
