"""Which racks have a weak signal?

Topics: `rack-readings` -> `alerts`. No window, no watermark.

A rack is in `WARNING` from a signal strength below 0.2 until one of 0.25 or more, or what its rule
says (`docs/rules.md`). Readings are ordered by `sequence`. A strength between the two bounds leaves
the state as it is, so a signal near one bound does not flap. One rule has two plans: native
expressions in Real-time Mode, and Python state in micro-batches.

Limitations: a crash repeats alerts, with the same ids. The real-time plan may count the fourth copy
of a reading as new when it is late.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from events.catalog import WEAK_SIGNAL
from events.records import InventoryRack
from events.rules import Rules, WeakSignal
from events.topics import ALERTS, RACK_READINGS
from events.triggers import Trigger
from spark_jobs.rules.framework.alert_record import alert_record
from spark_jobs.rules.framework.bucketed_readings import FINGERPRINT, Buckets, readings_schema
from spark_jobs.rules.framework.bucketed_rule import bucketed_decisions
from spark_jobs.rules.framework.consecutive import consecutive_changes
from spark_jobs.rules.framework.evidence import FIELDS
from spark_jobs.rules.framework.rack_metadata import (
    RackMetadata,
    add_rule_fields,
    effective_rule,
)
from spark_jobs.rules.framework.stateful_rule import (
    Decision,
    Reading,
    StatefulRule,
    to_alert_records,
)
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import RuleOptions

OPTIONAL_FIELDS = ("signal_strength",)
"""The optional fields of its evidence."""
_BUCKETS = Buckets(readings_schema((*Reading._fields, "site_id")))


def weak_signal_changes(
    readings: DataFrame, inventory: tuple[InventoryRack, ...], rules: Rules
) -> DataFrame:
    """Return one row per change, for Real-time Mode, which emits once per reading.

    In: readable readings with `offset`. Out: all that an alert needs except `summary`.
    """
    bounded = add_rule_fields(readings, inventory, rules, WeakSignal, ("below", "clear_at"))
    is_weak = F.col("signal_strength") < F.col("below")
    is_clear = F.col("signal_strength") >= F.col("clear_at")
    changes = consecutive_changes(
        bounded.where(is_weak | is_clear).withColumn("condition_met", is_weak),
        count=1,
        evidence=(*FIELDS, *OPTIONAL_FIELDS),
        carried=("site_id", "severity"),
    )
    return changes.withColumns(
        {
            "state": F.when(F.col("warning"), "WARNING").otherwise("NORMAL"),
            "severity": F.when(F.col("warning"), F.col("severity")).otherwise("info"),
        }
    )


class WeakSignalState(StatefulRule):
    """The latest reading outside the two bounds, and whether it was weak."""

    latest: Reading | None = None
    weak: bool = False
    below: float = 0.0
    clear_at: float = 0.0
    severity: str = ""

    def configure(self, row: RackMetadata, rules: Rules) -> None:
        """Take the rack's bounds and severity."""
        rule = effective_rule(rules, WeakSignal, row)
        self.below, self.clear_at = rule.below, rule.clear_at
        self.severity = rule.severity_of(row.rack)

    def on_row(self, subject: str, row: Any) -> Iterator[Decision]:  # noqa: ARG002
        """Take the rack's next reading."""
        reading = Reading.of(row)
        is_weak, is_clear = (
            reading.signal_strength < self.below,
            reading.signal_strength >= self.clear_at,
        )
        is_old = self.latest is not None and reading[:2] <= self.latest[:2]
        if is_old or not (is_weak or is_clear):
            return
        was_weak, self.weak, self.latest = self.weak, is_weak, reading
        if is_weak != was_weak:
            yield Decision(
                site_id=row.site_id,
                severity=self.severity if is_weak else None,
                event_time=reading.event_time,
                trigger_event_id=reading.event_id,
                evidence=(reading,),
            )


def add_summary(alerts: DataFrame) -> DataFrame:
    """Add `summary`, one sentence, to the decisions of either plan."""
    strength = F.element_at("evidence", -1)["signal_strength"]
    weak = F.format_string("Rack %s has a weak signal: its strength is %.3f.", "subject", strength)
    good = F.format_string(
        "Rack %s has a good signal again: its strength is %.3f.", "subject", strength
    )
    return alerts.withColumn("summary", F.when(F.col("state") == "WARNING", weak).otherwise(good))


def _real_time(readings: DataFrame, options: RuleOptions) -> DataFrame:
    changes = weak_signal_changes(readings, options.inventory, options.rules)
    return add_summary(changes).select(*alert_record(WEAK_SIGNAL))


def _micro_batch(readings: DataFrame, options: RuleOptions) -> DataFrame:
    decided = bucketed_decisions(readings, WeakSignalState, options, _BUCKETS)
    return to_alert_records(add_summary(decided), WEAK_SIGNAL, OPTIONAL_FIELDS)


_IN_BUCKETS = Plan(
    "micro-batch", _micro_batch, ("append",), batches=_BUCKETS.batches, fingerprint=FINGERPRINT
)

JOB = Job(
    name="weak_signal",
    sources=(RACK_READINGS,),
    options=RuleOptions,
    sink=ALERTS,
    state_version="v3",
    rule=WeakSignal,
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: _IN_BUCKETS,
        Trigger.AVAILABLE_NOW: _IN_BUCKETS,
    },
)
