"""Which racks have fallen silent? Topics: `rack-readings` to `alerts`.

A rack is in `WARNING` when nothing of it was appended to the topic for more than 30 seconds, until the next reading
(`docs/rules.md`). A silence that goes on is noticed by the wall clock, a quarter of a second after its time and twice a
second, even when all racks are silent at once; one that is over is found between the append times of two records, so
that a job that was down, or a replay, gives the same alerts. Under available-now the topic's latest append time is the
clock.

What it gets wrong: when the machine stalls for a quarter of a second just between asking the broker for what there is
and looking at the clock, a record that came meanwhile is taken for missing.
"""

from collections.abc import Iterator
from datetime import timedelta

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from events.rules import Rules, SilentSensor
from events.times import to_text
from events.topics import ALERTS, RACK_READINGS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.rack_rules import ordered_readings, racks_table, rule_of, severity_of
from spark_jobs.rule_state import Decision, Machine, Reading, decisions, plain_alerts
from spark_jobs.triggers import Trigger

GRACE_MS = 250
"""How long after its time a silence is noticed, by the wall clock: what was appended in time is visible by then."""
LAG = "1 second"
"""How far the clock of available-now is behind the topic's latest append time."""


class Silence(Machine):
    """The rack's last reading, and whether it is silent since. Times in epoch milliseconds."""

    last: Reading | None = None
    last_ms: int | None = None
    """When the last one was appended, or the job's first start where none has come."""
    silent: bool = False
    site_id: str = ""
    after_ms: int = 0
    grace_ms: int = 0
    severity: str = ""

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in how long a silence is."""
        rule = rule_of(rules, SilentSensor, row)
        self.after_ms, self.severity = round(rule.after_s * 1000), severity_of(rule, row)
        self.site_id, self.grace_ms = row["site_id"], row["grace_ms"]

    def await_first(self, now_ms: int) -> None:
        """Begin with the job's first start."""
        self.last_ms = now_ms

    def take(self, subject: str, row: Row) -> Iterator[Decision]:
        """Take the rack's next record: it ends a silence, and may show that there was one."""
        append_ms, reading = row["append_ms"], Reading.of(row)
        self.site_id = row["site_id"]
        if self.last is not None and append_ms - self._last_ms > self.after_ms and not self.silent:
            yield self._begins(subject)
        if self.silent:
            self.silent = False
            yield self._ends(subject, append_ms, reading)
        self.last, self.last_ms = reading, append_ms

    def due_ms(self) -> int | None:
        """Return when the silence that may have begun is one."""
        return None if self.silent else self._last_ms + self.after_ms + self.grace_ms + 1

    def tick(self, subject: str, now_ms: int) -> Iterator[Decision]:
        """Notice a silence that goes on."""
        due_ms = self.due_ms()
        if due_ms is not None and due_ms <= now_ms:
            yield self._begins(subject)

    @property
    def _last_ms(self) -> int:
        if self.last_ms is None:
            raise AssertionError("a rack is known by a record or by the inventory")
        return self.last_ms

    def _begins(self, subject: str) -> Decision:
        self.silent = True
        since = to_text(self._last_ms)
        due = (self._last_ms + self.after_ms) * 1000
        if self.last is None:
            sentence = f"Rack {subject} has sent nothing since the start, {since}."
            return Decision(self.site_id, self.severity, due, f"{subject}|{since}", sentence)
        sentence = f"Rack {subject} is silent: nothing came for {self.after_ms / 1000:g} s after {since}."
        return Decision(self.site_id, self.severity, due, self.last.event_id, sentence, (self.last,))

    def _ends(self, subject: str, append_ms: int, reading: Reading) -> Decision:
        lasted_s = (append_ms - self._last_ms) / 1000
        sentence = f"Rack {subject} sends again, after {lasted_s:.1f} s of silence."
        return Decision(self.site_id, None, reading.event_time, reading.event_id, sentence, (reading,))


def silences(readings: DataFrame, options: JobOptions, *, by_wall_clock: bool) -> DataFrame:
    """Return the decisions on readable readings with Kafka's columns; append mode only.

    By the wall clock, with the racks of the inventory known from the start; or by the topic's own clock.
    """
    rows = ordered_readings(readings, options.inventory)
    if not by_wall_clock:
        timed = rows.withWatermark("timestamp", LAG).withColumn("grace_ms", F.lit(0))
        return decisions(timed, "rack_id", Silence, options.rules, "EventTime")
    grace = F.lit(GRACE_MS).alias("grace_ms")
    racks = racks_table(readings.sparkSession, options.inventory).select(
        "rack_id", "rack", "rack.site_id", grace
    )
    known = racks if options.inventory else None
    return decisions(rows.select("*", grace), "rack_id", Silence, options.rules, "ProcessingTime", known)


def _by_wall_clock(readings: DataFrame, options: JobOptions) -> DataFrame:
    found = silences(readings, options, by_wall_clock=True)
    return plain_alerts(found, SilentSensor().name)


def _by_topic(readings: DataFrame, options: JobOptions) -> DataFrame:
    found = silences(readings, options, by_wall_clock=False)
    return plain_alerts(found, SilentSensor().name)


JOB = Job(
    name="silent_sensor",
    source=RACK_READINGS,
    sink=ALERTS,
    rules_version="v1",
    rule=SilentSensor,
    state_partitions=1,
    micro_batch=timedelta(milliseconds=500),
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _by_wall_clock, ("append",), reads_all=True),
        Trigger.AVAILABLE_NOW: Plan("available-now", _by_topic, ("append",), reads_all=True),
    },
)
