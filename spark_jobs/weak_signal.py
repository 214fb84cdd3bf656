"""Which racks are hard to hear? Topics: `rack-readings` to `alerts`.

A rack is in `WARNING` from a signal strength below 0.2 until one of 0.25 or more, by the order of `sequence`: what lies
between the two decides nothing, so that a signal near one bound does not come and go (`docs/rules.md`).
Two plans for the one rule: built-in expressions in Real-time Mode, Python state in micro-batches.

What it gets wrong: a kill repeats alerts (their ids are the same). Of more than three copies of a reading, and late,
the real-time plan may take one for new.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from events.records import InventoryRack
from events.rules import Rules, WeakSignal
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.alerts import alert_record
from spark_jobs.in_a_row import changes_in_a_row
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.rack_rules import ordered_readings, rule_of, severity_of, with_rule_fields
from spark_jobs.rule_state import Decision, Machine, Reading, decisions
from spark_jobs.triggers import Trigger


def weak_signal_changes(readings: DataFrame, inventory: tuple[InventoryRack, ...], rules: Rules) -> DataFrame:
    """Return the decisions, for Real-time Mode, which emits once per reading: see `in_a_row`.

    In: readable readings with `offset`. Out: all that an alert needs but the summary.
    """
    bounded = with_rule_fields(readings, inventory, rules, WeakSignal, ("below", "clear_at"))
    signal = F.col("signal_strength")
    deciding = bounded.where((signal < F.col("below")) | (signal >= F.col("clear_at")))
    changes = changes_in_a_row(
        deciding.withColumn("hit", signal < F.col("below")),
        1,
        ("temperature_c", "signal_strength"),
        ("site_id", "severity"),
    )
    return changes.withColumns(
        {
            "state": F.when(F.col("warning"), "WARNING").otherwise("NORMAL"),
            "severity": F.when(F.col("warning"), F.col("severity")).otherwise("info"),
        }
    )


class Signal(Machine):
    """The latest reading that decided, and whether it was weak."""

    latest: Reading | None = None
    weak: bool = False
    below: float = 0.0
    clear_at: float = 0.0
    severity: str = ""

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in the rack's bounds and severity."""
        rule = rule_of(rules, WeakSignal, row)
        self.below, self.clear_at, self.severity = rule.below, rule.clear_at, severity_of(rule, row)

    def take(self, subject: str, row: Row) -> Iterator[Decision]:  # noqa: ARG002
        """Take the rack's next reading."""
        reading = Reading.of(row)
        decides = reading.signal_strength < self.below or reading.signal_strength >= self.clear_at
        if not decides or (self.latest is not None and reading[:2] <= self.latest[:2]):
            return
        before, self.weak, self.latest = self.weak, reading.signal_strength < self.below, reading
        if self.weak != before:
            severity = self.severity if self.weak else None
            yield Decision(
                row["site_id"], severity, reading.event_time, reading.event_id, evidence=(reading,)
            )


def with_summary(alerts: DataFrame) -> DataFrame:
    """Add `summary`, one sentence, to the decisions of either plan."""
    strength = F.element_at("evidence", -1)["signal_strength"]
    weak = F.format_string("Rack %s has a weak signal: its strength is %.3f.", "subject", strength)
    good = F.format_string("Rack %s has a good signal again: its strength is %.3f.", "subject", strength)
    return alerts.withColumn("summary", F.when(F.col("state") == "WARNING", weak).otherwise(good))


def _real_time(readings: DataFrame, options: JobOptions) -> DataFrame:
    changes = weak_signal_changes(readings, options.inventory, options.rules)
    return with_summary(changes).select(*alert_record(WeakSignal().name))


def _micro_batch(readings: DataFrame, options: JobOptions) -> DataFrame:
    rows = ordered_readings(readings, options.inventory)
    found = decisions(rows, "rack_id", Signal, options.rules)
    return with_summary(found).select(*alert_record(WeakSignal().name))


JOB = Job(
    name="weak_signal",
    source=RACK_READINGS,
    sink=ALERTS,
    rules_version="v1",
    rule=WeakSignal,
    plans={
        Trigger.REAL_TIME: Plan("real-time", _real_time, ("update",)),
        Trigger.MICRO_BATCH: Plan("micro-batch", _micro_batch, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _micro_batch, ("append",)),
    },
)
