"""Which racks have fallen silent?

Topics: `rack-readings` -> `alerts`. No window. Watermark: with available-now 1 second of append
time, otherwise none.

A rack is in `WARNING` when nothing from it was appended to the topic for more than 30 seconds, or
what its rule says (`docs/rules.md`), until its next reading. A silence that goes on is detected by
the wall clock, within 250 ms and half a second of its time, even when all racks are silent at once.
A silence that is over is detected from the append times of two records, so a job that was down, or
a replay, gives the same alerts. With available-now the latest append time of the topic is the
clock.

Limitations: a record may count as missing when the machine stalls for 250 ms between asking the
broker for its latest offsets and reading the clock, or when the driver's clock is that much ahead
of the broker's.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from events.catalog import SILENT_SENSOR
from events.rules import Rules, SilentSensor
from events.times import to_text
from events.topics import ALERTS, RACK_READINGS
from events.triggers import Trigger
from spark_jobs.rules.framework.bucketed_readings import FINGERPRINT, Buckets, readings_schema
from spark_jobs.rules.framework.bucketed_rule import bucketed_decisions
from spark_jobs.rules.framework.rack_metadata import RackMetadata, effective_rule
from spark_jobs.rules.framework.stateful_rule import (
    Decision,
    Reading,
    StatefulRule,
    to_alert_records,
)
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import RuleOptions

GRACE_MS = 250
"""How long to wait after a silence is due: by then a record appended in time is visible."""
TRIGGER_IDS_KEPT = 8
"""How many readings that decided a silence, or its end, a rack's state keeps."""
AVAILABLE_NOW_WATERMARK = "1 second"
"""How far the clock of available-now is behind the topic's latest append time."""
_READINGS = readings_schema((*Reading._fields, "site_id"))


class SilentSensorState(StatefulRule):
    """A rack's last reading, and whether the rack is silent since; times in epoch milliseconds."""

    last: Reading | None = None
    last_append_ms: int | None = None
    """When the last reading was appended; the job's first start where none has come."""
    silent: bool = False
    began_by: tuple[str, ...] = ()
    ended_by: tuple[str, ...] = ()
    """The `event_id` of the readings that decided the latest silences and their ends."""
    site_id: str = ""
    silent_after_ms: int = 0
    grace_ms: int = 0
    severity: str = ""

    def configure(self, row: RackMetadata, rules: Rules) -> None:
        """Take how long a rack may send nothing."""
        rule = effective_rule(rules, SilentSensor, row)
        self.silent_after_ms = round(rule.after_s * 1000)
        self.severity = rule.severity_of(row.rack)
        if row.rack and not self.site_id:
            self.site_id = row.rack.site_id

    def on_start(self, now_ms: int) -> None:
        """Count a silence from the job's first start."""
        self.last_append_ms = now_ms

    def on_row(self, subject: str, row: Any) -> Iterator[Decision]:
        """Take the rack's next record: it ends a silence, and may show that there was one."""
        append_ms, reading = row.append_ms, Reading.of(row)
        self.site_id = row.site_id
        is_gap = self.last is not None and append_ms - self._last_ms > self.silent_after_ms
        if is_gap and not self.silent:
            yield self._start_silence(subject)
        if self.silent:
            self.silent = False
            yield self._end_silence(subject, append_ms, reading)
        elif self.last is None:  # as if it had ended one: ids do not depend on the job's start
            self.ended_by = (reading.event_id,)
        self.last, self.last_append_ms = reading, append_ms

    def next_timer_ms(self) -> int | None:
        """Return when the rack is silent unless a reading comes; None while it is silent."""
        return None if self.silent else self._last_ms + self.silent_after_ms + self.grace_ms + 1

    def on_timer(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Detect a silence that goes on."""
        next_ms = self.next_timer_ms()
        if next_ms is not None and next_ms <= now_ms:
            yield self._start_silence(subject)

    @property
    def _last_ms(self) -> int:
        if self.last_append_ms is None:
            raise AssertionError("a rack is known by a record or by the inventory")
        return self.last_append_ms

    def _start_silence(self, subject: str) -> Decision:
        self.silent = True
        since = to_text(self._last_ms)
        due_us = (self._last_ms + self.silent_after_ms) * 1000
        if self.last is None:
            sentence = f"Rack {subject} has sent nothing since the start, {since}."
            return Decision(self.site_id, self.severity, due_us, f"{subject}|{since}", sentence)
        trigger_event_id = _trigger_event_id(self.last.event_id, self.began_by, since)
        self.began_by = (*self.began_by, self.last.event_id)[-TRIGGER_IDS_KEPT:]
        after_s = self.silent_after_ms / 1000
        sentence = f"Rack {subject} is silent: nothing came for {after_s:g} s after {since}."
        return Decision(
            self.site_id, self.severity, due_us, trigger_event_id, sentence, (self.last,)
        )

    def _end_silence(self, subject: str, append_ms: int, reading: Reading) -> Decision:
        trigger_event_id = _trigger_event_id(reading.event_id, self.ended_by, to_text(append_ms))
        self.ended_by = (*self.ended_by, reading.event_id)[-TRIGGER_IDS_KEPT:]
        silent_s = (append_ms - self._last_ms) / 1000
        sentence = f"Rack {subject} sends again, after {silent_s:.1f} s of silence."
        return Decision(
            self.site_id, None, reading.event_time, trigger_event_id, sentence, (reading,)
        )


def _trigger_event_id(event_id: str, before: tuple[str, ...], appended: str) -> str:
    """Return what identifies a change: the reading and, if a copy of it did so before, its time.

    Otherwise two silences would have one `alert_id`, and the second would count as a duplicate.
    """
    return f"{event_id}|{appended}" if event_id in before else event_id


def _plan(name: str, *, by_wall_clock: bool) -> Plan:
    """Return a plan by the wall clock, or one whose clock is the topic's append times."""
    buckets = Buckets(_READINGS, latest=None if by_wall_clock else "append_ms")

    def records(readings: DataFrame, options: RuleOptions) -> DataFrame:
        decided = bucketed_decisions(
            readings,
            SilentSensorState,
            options,
            buckets,
            settings={"grace_ms": GRACE_MS if by_wall_clock else 0},
            watermark=None if by_wall_clock else AVAILABLE_NOW_WATERMARK,
            by_wall_clock=by_wall_clock,
        )
        return to_alert_records(decided, SILENT_SENSOR)

    return Plan(
        name,
        records,
        ("append",),
        batches=buckets.batches,
        reads_all=True,
        by_wall_clock=by_wall_clock,
        fingerprint=FINGERPRINT,
    )


JOB = Job(
    name="silent_sensor",
    sources=(RACK_READINGS,),
    options=RuleOptions,
    sink=ALERTS,
    state_version="v4",
    rule=SilentSensor,
    state_partitions=1,
    micro_batch_interval=timedelta(milliseconds=500),
    plans={
        Trigger.MICRO_BATCH: _plan("micro-batch", by_wall_clock=True),
        Trigger.AVAILABLE_NOW: _plan("available-now", by_wall_clock=False),
    },
)
