"""Of which racks do too few readings come? Topics: `rack-readings` to `alerts`.

A rack is in `WARNING` when a window of 5 seconds of event time holds some of its readings, but fewer than 5, or than
half of what it sends by the inventory, and back in `NORMAL` when one holds enough (`docs/rules.md`). A window is judged
when the watermark of 30 seconds has closed it; each rack's windows in their order, its first one not at all.

What it gets wrong: it takes the clocks of the racks for true, so that one that is up to 5 minutes ahead makes the
others late. The last windows stay open until a newer reading arrives from any rack.
"""

from collections.abc import Iterator

from msgspec import field
from pyspark.sql import DataFrame, Row

from events.records import InventoryRack
from events.rules import LostSignal, Rules
from events.times import to_text
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.rack_rules import ordered_readings, rule_of, severity_of
from spark_jobs.rule_state import Decision, Machine, decisions, plain_alerts
from spark_jobs.triggers import Trigger

WATERMARK = "30 seconds"


class Windows(Machine):
    """The rack's windows that are still open: the ids of their first readings, as many as are enough. Times in ms."""

    open: dict[int, list[str]] = field(default_factory=dict)
    newest_ms: int = 0
    judged_one: bool = False
    warning: bool = False
    site_id: str = ""
    device_type: str = ""
    enough: int = 0
    window_ms: int = 0
    late_ms: int = 0
    severity: str = ""

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in how many readings are enough, and the size of a window."""
        rule = rule_of(rules, LostSignal, row)
        window_ms = round(rule.window_s * 1000)
        if window_ms != self.window_ms:
            self.open.clear()
        self.window_ms, self.severity = window_ms, severity_of(rule, row)
        self.enough = rule.readings
        if row["rack"]:
            due = row["rack"]["readings_per_second"] * rule.window_s
            self.enough = min(rule.readings, int(due / 2))
        self.late_ms = row["late_ms"]

    def take(self, subject: str, row: Row) -> Iterator[Decision]:  # noqa: ARG002 - decided by the clock alone
        """Count a reading, unless it is a copy or late."""
        event_ms = row["event_time"] // 1000
        if event_ms >= self.newest_ms - self.late_ms:
            ids = self.open.setdefault(event_ms - event_ms % self.window_ms, [])
            if len(ids) < max(self.enough, 1) and row["event_id"] not in ids:
                ids.append(row["event_id"])
        self.newest_ms = max(self.newest_ms, event_ms)
        self.site_id, self.device_type = row["site_id"], row["device_type"]
        return iter(())

    def due_ms(self) -> int | None:
        """Return the end of the oldest open window."""
        return min(self.open) + self.window_ms if self.open else None

    def tick(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Judge the windows that the watermark has closed."""
        for start_ms in sorted(self.open):
            if start_ms + self.window_ms > now_ms:
                break
            count = len(self.open.pop(start_ms))
            warning = count < self.enough
            if self.judged_one and warning != self.warning:
                self.warning = warning
                yield self._decision(subject, start_ms, count)
            self.judged_one = True

    def _decision(self, subject: str, start_ms: int, count: int) -> Decision:
        end_ms = start_ms + self.window_ms
        what = (
            f"only {count} of at least {self.enough} readings came"
            if self.warning
            else "enough readings came again"
        )
        sentence = (
            f"Rack {subject} ({self.device_type}): {what} from {to_text(start_ms)} to {to_text(end_ms)}."
        )
        return Decision(
            self.site_id,
            self.severity if self.warning else None,
            end_ms * 1000,
            to_text(start_ms),
            sentence,
        )


def lost_signals(
    readings: DataFrame, inventory: tuple[InventoryRack, ...], rules: Rules, watermark: str
) -> DataFrame:
    """Return the decisions on readings with Kafka's columns, by event time; append mode only."""
    rows = ordered_readings(readings, inventory).withWatermark("event_at", watermark)
    late = f"cast(cast(INTERVAL '{watermark}' as interval second) * 1000 as bigint)"
    return decisions(rows.selectExpr("*", f"{late} as late_ms"), "rack_id", Windows, rules, "EventTime")


def _records(readings: DataFrame, options: JobOptions) -> DataFrame:
    found = lost_signals(readings, options.inventory, options.rules, options.lateness)
    return plain_alerts(found, LostSignal().name)


JOB = Job(
    name="lost_signal",
    source=RACK_READINGS,
    sink=ALERTS,
    by_event_time=True,
    rules_version="v1",
    rule=LostSignal,
    shaping_options=("watermark",),
    defaults={"watermark": WATERMARK},
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
