"""Run a rule as Python state: one state per subject, fed with its rows and with a clock.

A rule is a `StatefulRule`: plain Python that knows nothing of Spark. It is run in one of two forms,
which keep its state between batches as bytes, and give it its rows in the topic's order and a
timer. `decisions`, here, groups by subject, for few subjects such as sites. `bucketed_rule` groups
by buckets of racks.
"""

from collections.abc import Iterator
from operator import attrgetter
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
from spark_jobs.rules.framework.alert_record import alert_record
from spark_jobs.rules.framework.evidence import (
    ALL_FIELDS,
    FIELDS,
    evidence_type,
    evidence_with_fields,
    evidence_with_timestamps,
)

DECISION = (
    T.StructType()
    .add("subject", T.StringType())
    .add("site_id", T.StringType())
    .add("state", T.StringType())
    .add("severity", T.StringType())
    .add("event_time", T.LongType())
    .add("trigger_event_id", T.StringType())
    .add("summary", T.StringType())
    .add("evidence", T.ArrayType(evidence_type()))
)
# A StructType instead of DDL text: the worker that opens the state has no JVM to parse text with.
_STATE = T.StructType().add("state", T.BinaryType()).add("timer_ms", T.LongType())


class Reading(NamedTuple):
    """A reading as evidence, ordered by `sequence`, then `event_id`.

    `event_time` is in epoch microseconds.
    """

    sequence: int
    event_id: str
    event_time: int
    temperature_c: float
    signal_strength: float

    @classmethod
    def of(cls, row: Any) -> "Reading":
        """Take a reading out of a row that has its fields as attributes."""
        return cls._make(_READING_FIELDS(row))


_READING_FIELDS = attrgetter(*Reading._fields)


class Decision(NamedTuple):
    """A change of state or severity.

    `severity` is None for a change to `NORMAL`. `event_time` is in epoch microseconds. `evidence`
    has readings: each is a `Reading`, or the rule's own tuple with the names of evidence fields.
    """

    site_id: str
    severity: str | None
    event_time: int
    trigger_event_id: str
    summary: str = ""
    evidence: tuple[NamedTuple, ...] = ()


class StatefulRule(Struct, forbid_unknown_fields=True):
    """The state of one subject. A rule derives from it; its fields, all with defaults, are kept.

    State with a field that the rule does not have is an error, not a state of defaults: whoever
    renames a field changes the job's `state_version`.
    """

    def configure(self, row: Any, rules: Rules) -> None:
        """Take what the rules and the inventory say about the subject.

        It is called in each batch that has rows of the subject, as both may have changed. `row` is
        one of these rows; for a rack of `bucketed_rule` it is its `RackMetadata`.
        """

    def on_start(self, now_ms: int) -> None:
        """Start at this wall clock without a row; only for subjects that are known beforehand."""

    def on_row(self, subject: str, row: Any) -> Iterator[Decision]:
        """Take the subject's next row of the topic."""
        raise NotImplementedError

    def on_batch_end(self, subject: str) -> Iterator[Decision]:  # noqa: ARG002 - for rules that need all rows of a batch
        """Decide after the last row of a batch what needs all of its rows."""
        return iter(())

    def on_timer(self, subject: str, now_ms: int) -> Iterator[Decision]:  # noqa: ARG002 - for rules with a clock
        """Decide what time alone decides.

        `now_ms` is the wall clock or the watermark, in epoch milliseconds.
        """
        return iter(())

    def next_timer_ms(self) -> int | None:
        """Return the earliest time at which `on_timer` could decide something, or None."""
        return None


def decisions(
    rows: DataFrame, key: str, rule: type[StatefulRule], rules: Rules, time_mode: str = "None"
) -> DataFrame:
    """Return a row per decision, with the columns that `to_alert_records` takes.

    In: `key`, the subject; `append_ms`, `partition` and `offset`, by which a subject's rows are
    ordered; and what `rule` reads of a row. `time_mode` is the rule's clock: None or
    ProcessingTime.

    The evidence has the optional fields too, which `to_alert_records` leaves out.
    """
    grouped = rows.groupBy(key).transformWithState(
        RuleProcessor(rule, rules),
        outputStructType=DECISION,
        outputMode="Append",
        timeMode=time_mode,
    )
    return with_timestamps(grouped)


def with_timestamps(decided: DataFrame) -> DataFrame:
    """Return rows of `DECISION` with their times as timestamps."""
    return decided.withColumns(
        {
            "event_time": F.timestamp_micros("event_time"),
            "evidence": evidence_with_timestamps(),
        }
    )


def to_alert_records(
    decided: DataFrame, rule: str, optional_fields: tuple[str, ...] = ()
) -> DataFrame:
    """Return decisions as alert records, whose evidence has these optional fields only."""
    evidence = evidence_with_fields((*FIELDS, *optional_fields))
    return decided.withColumn("evidence", evidence).select(*alert_record(rule))


class RuleProcessor(StatefulProcessor):
    """Runs a `StatefulRule` for each subject.

    It reads and writes the state once per subject and batch, and sets a new timer only when the
    earlier one has fired or is too late.
    """

    def __init__(self, rule: type[StatefulRule], rules: Rules) -> None:
        self._rule_type, self._rules = rule, rules

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the subject's one state."""
        self._handle = handle
        self._state = handle.getValueState("state", _STATE)
        self._decoder = msgspec.msgpack.Decoder(self._rule_type)

    def handleInputRows(  # type: ignore[override] # noqa: N802 - Spark's name; without pandas, rows come
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803, ARG002 - Spark's name
    ) -> Iterator[Row]:
        """Take the subject's rows of this batch in the topic's order."""
        batch = sorted(rows, key=lambda row: (row["append_ms"], row["partition"], row["offset"]))
        stored = self._state.get()
        rule = self._decoder.decode(stored[0]) if stored else self._rule_type()
        rule.configure(batch[0], self._rules)
        for row in batch:
            for decision in rule.on_row(key[0], row):
                yield to_row(key[0], decision)
        for decision in rule.on_batch_end(key[0]):
            yield to_row(key[0], decision)
        self._store(rule, stored[1] if stored else None)

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        """Let the rule decide by the clock."""
        stored = self._state.get()
        if stored is None or stored[1] != expiredTimerInfo.getExpiryTimeInMs():
            return  # an earlier timer was set since
        rule = self._decoder.decode(stored[0])
        for decision in rule.on_timer(key[0], timerValues.getCurrentProcessingTimeInMs()):
            yield to_row(key[0], decision)
        self._store(rule, None)

    def _store(self, rule: StatefulRule, timer_ms: int | None) -> None:
        timer_ms = register_timer(self._handle, rule.next_timer_ms(), timer_ms)
        self._state.update((msgspec.msgpack.encode(rule), timer_ms))


def register_timer(
    handle: StatefulProcessorHandle, next_timer_ms: int | None, timer_ms: int | None
) -> int | None:
    """Set a timer for `next_timer_ms`, unless `timer_ms` comes first; return the earlier one.

    All are in epoch milliseconds; None is no timer.
    """
    # Spark fires a timer when its clock is at or past it, and deletes it after the handler. One set
    # before `next_timer_ms` could fire too early, be set again by the handler, and be lost.
    if next_timer_ms is None or (timer_ms is not None and timer_ms <= next_timer_ms):
        return timer_ms
    handle.registerTimer(next_timer_ms)
    return next_timer_ms


def to_row(subject: str, decision: Decision) -> Row:
    """Return a decision as a row of `DECISION`."""
    return Row(
        subject=subject,
        site_id=decision.site_id,
        state="NORMAL" if decision.severity is None else "WARNING",
        severity=decision.severity or "info",
        event_time=decision.event_time,
        trigger_event_id=decision.trigger_event_id,
        summary=decision.summary,
        evidence=[
            Row(**{name: getattr(reading, name, None) for name in ALL_FIELDS})
            for reading in decision.evidence
        ],
    )
