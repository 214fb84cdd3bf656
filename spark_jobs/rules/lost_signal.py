"""Which racks send too few readings?

Topics: `rack-readings` -> `alerts`. Tumbling windows of 5 seconds of event time, by the rack's rule
(`docs/rules.md`). Watermark: 30 seconds.

A rack goes into `WARNING` when it sent some readings in a window, but fewer than expected. The
expected number is the smaller of 5 and half of what the rack sends by the inventory. The rack is
back in `NORMAL` when a window has enough readings. A window is evaluated once the watermark has
closed it. A rack's first window is skipped, as the rack may have started within it.

Limitations: it trusts the racks' clocks, so a rack whose clock is up to 5 minutes ahead makes the
readings of all others late. The last windows stay open until any rack sends a newer reading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import field
from pyspark.sql import DataFrame

from events.catalog import LOST_SIGNAL
from events.constants import LOST_SIGNAL_WATERMARK
from events.rules import LostSignal, Rules
from events.times import to_interval, to_text
from events.topics import ALERTS, RACK_READINGS
from events.triggers import Trigger
from spark_jobs.rules.framework.bucketed_readings import FINGERPRINT, Buckets, readings_schema
from spark_jobs.rules.framework.bucketed_rule import bucketed_decisions
from spark_jobs.rules.framework.rack_metadata import RackMetadata, effective_rule
from spark_jobs.rules.framework.stateful_rule import Decision, StatefulRule, to_alert_records
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import RuleOptions
from spark_jobs.runtime.windows import interval_us

_BUCKETS = Buckets(
    readings_schema(("event_id", "event_time", "site_id", "device_type")), latest="event_time"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(RuleOptions):
    """Options of `lost_signal`."""

    watermark: Annotated[str, "How late a reading may be and still count."] = to_interval(
        LOST_SIGNAL_WATERMARK
    )


class LostSignalState(StatefulRule):
    """A rack's open windows: the ids of their first readings, as many as are expected.

    Times are in epoch milliseconds.
    """

    open_windows: dict[int, list[str]] = field(default_factory=dict)
    latest_event_ms: int = 0
    is_first_window_over: bool = False
    warning: bool = False
    site_id: str = ""
    device_type: str = ""
    expected_readings: int = 0
    window_ms: int = 0
    watermark_delay_ms: int = 0
    severity: str = ""

    def configure(self, row: RackMetadata, rules: Rules) -> None:
        """Take the expected number of readings and the length of a window."""
        rule = effective_rule(rules, LostSignal, row)
        window_ms = round(rule.window_s * 1000)
        if window_ms != self.window_ms:
            self.open_windows.clear()
        self.window_ms, self.severity = window_ms, rule.severity_of(row.rack)
        self.expected_readings = rule.readings
        if row.rack:
            sent = row.rack.readings_per_second * rule.window_s
            self.expected_readings = min(rule.readings, int(sent / 2))

    def on_row(self, subject: str, row: Any) -> Iterator[Decision]:  # noqa: ARG002 - decided by the clock alone
        """Count a reading, unless it is late or a copy."""
        event_ms = row.event_time // 1000
        if event_ms >= self.latest_event_ms - self.watermark_delay_ms:
            ids = self.open_windows.setdefault(event_ms - event_ms % self.window_ms, [])
            if len(ids) < max(self.expected_readings, 1) and row.event_id not in ids:
                ids.append(row.event_id)
        self.latest_event_ms = max(self.latest_event_ms, event_ms)
        self.site_id, self.device_type = row.site_id, row.device_type
        return iter(())

    def next_timer_ms(self) -> int | None:
        """Return the end of the oldest open window."""
        return min(self.open_windows) + self.window_ms if self.open_windows else None

    def on_timer(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Evaluate the windows that the watermark has closed, oldest first."""
        for start_ms in sorted(self.open_windows):
            if start_ms + self.window_ms > now_ms:
                break
            count = len(self.open_windows.pop(start_ms))
            warning = count < self.expected_readings
            if self.is_first_window_over and warning != self.warning:
                self.warning = warning
                yield self._decision(subject, start_ms, count)
            self.is_first_window_over = True

    def _decision(self, subject: str, start_ms: int, count: int) -> Decision:
        end_ms = start_ms + self.window_ms
        what = (
            f"only {count} of at least {self.expected_readings} readings came"
            if self.warning
            else "enough readings came again"
        )
        return Decision(
            site_id=self.site_id,
            severity=self.severity if self.warning else None,
            event_time=end_ms * 1000,
            trigger_event_id=to_text(start_ms),
            summary=f"Rack {subject} ({self.device_type}): {what} "
            f"from {to_text(start_ms)} to {to_text(end_ms)}.",
        )


def _records(readings: DataFrame, options: Options) -> DataFrame:
    delay_ms = interval_us(readings.sparkSession, options.watermark) // 1000
    decided = bucketed_decisions(
        readings,
        LostSignalState,
        options,
        _BUCKETS,
        settings={"watermark_delay_ms": delay_ms},
        watermark=options.watermark,
    )
    return to_alert_records(decided, LOST_SIGNAL)


_IN_BUCKETS = Plan(
    "micro-batch", _records, ("append",), batches=_BUCKETS.batches, fingerprint=FINGERPRINT
)

JOB = Job(
    name="lost_signal",
    sources=(RACK_READINGS,),
    sink=ALERTS,
    by_event_time=True,
    state_version="v3",
    rule=LostSignal,
    options=Options,
    plans=dict.fromkeys((Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), _IN_BUCKETS),
)
