"""The overheating rule as a file of rules may extend it: a state machine over a rack's readings, in micro-batches.

Hysteresis, a bound in time, and escalation (`docs/rules.md`). The readings are taken in the order of `sequence`: the
last 32 are kept, and the state that those before them led to; so a reading that comes late is put in its place, and
everything after it is gone through again.
"""

from bisect import bisect_left
from collections.abc import Iterator

import msgspec
from msgspec import Struct, field
from pyspark.sql import Row

from events.inventory import DEFAULT_THRESHOLD_C
from events.rules import KEPT_READINGS, Overheating, Rules
from spark_jobs.rack_rules import rule_of, severity_of
from spark_jobs.rule_state import Decision, Machine, Reading

CRITICAL = "critical"


class Bounds(Struct, frozen=True):
    """What the rule asks for. °C; times in microseconds; None where the rule leaves it out."""

    count: int = 3
    threshold_c: float = DEFAULT_THRESHOLD_C
    clear_below_c: float = DEFAULT_THRESHOLD_C
    within: int | None = None
    rising: int | None = None
    critical_after: int | None = None
    severity: str = "error"


class Course(Struct):
    """Where the readings so far have led, in the order of `sequence`."""

    severity: str | None = None
    """Of the WARNING; None in NORMAL."""
    opened: int = 0
    """Event time of the reading that opened the WARNING."""
    rises: int | None = None
    """How many readings in a row since then were each higher than the one before; None once one was not."""
    last_c: float = 0.0
    hot: list[int] = field(default_factory=list)
    """Event times of the hot readings in a row up to the last one, as many as the rule counts."""

    def follow(self, reading: Reading, bounds: Bounds) -> None:
        """Go on by one reading."""
        is_hot = reading.temperature_c >= bounds.threshold_c
        self.hot = [*self.hot, reading.event_time][-bounds.count :] if is_hot else []
        if self.severity is None:
            if len(self.hot) == bounds.count and (
                bounds.within is None or self.hot[-1] - self.hot[0] <= bounds.within
            ):
                self.severity, self.opened, self.rises = bounds.severity, reading.event_time, 0
        elif reading.temperature_c < bounds.clear_below_c:
            self.severity = None
        else:
            self._escalate(reading, bounds)
        self.last_c = reading.temperature_c

    def _escalate(self, reading: Reading, bounds: Bounds) -> None:
        if self.rises is not None:
            self.rises = self.rises + 1 if reading.temperature_c > self.last_c else None
        rose = bounds.rising is not None and self.rises is not None and self.rises >= bounds.rising
        lasts = bounds.critical_after is not None and reading.event_time - self.opened > bounds.critical_after
        if rose or lasts:
            self.severity = CRITICAL


class Heat(Machine):
    """The last readings of a rack in the order of `sequence`, and the course before and after them."""

    readings: list[Reading] = field(default_factory=list)
    before: Course = field(default_factory=Course)
    after: Course = field(default_factory=Course)
    bounds: Bounds = field(default_factory=Bounds)

    def learn(self, row: Row, rules: Rules) -> None:
        """Take in what the rule asks for, and the rack's threshold."""
        rule = rule_of(rules, Overheating, row)
        threshold = rule.threshold_c
        if threshold is None:
            threshold = row["rack"]["threshold_c"] if row["rack"] else DEFAULT_THRESHOLD_C
        self.bounds = Bounds(
            rule.count,
            threshold,
            threshold if rule.clear_below_c is None else rule.clear_below_c,
            _micros(rule.within_s),
            rule.rising,
            _micros(rule.critical_after_s),
            severity_of(rule, row),
        )

    def take(self, subject: str, row: Row) -> Iterator[Decision]:
        """Take the rack's next record: a new reading is put in its place."""
        reading = Reading.of(row)
        if any(reading.event_id == other.event_id for other in self.readings):
            return
        if len(self.readings) == KEPT_READINGS and reading[:2] < self.readings[0][:2]:
            return
        severity = self.after.severity
        self._put(reading)
        if self.after.severity != severity:
            yield Decision(
                row["site_id"],
                self.after.severity,
                reading.event_time,
                reading.event_id,
                self._summary(subject),
                tuple(self.readings[-self.bounds.count :]),
            )

    def _put(self, reading: Reading) -> None:
        place = bisect_left(self.readings, reading[:2], key=lambda other: other[:2])
        self.readings.insert(place, reading)
        if place == len(self.readings) - 1:
            self.after.follow(reading, self.bounds)
        else:
            self.after = msgspec.convert(msgspec.to_builtins(self.before), Course)
            for each in self.readings:
                self.after.follow(each, self.bounds)
        if len(self.readings) > KEPT_READINGS:
            self.before.follow(self.readings.pop(0), self.bounds)

    def _summary(self, subject: str) -> str:
        latest, bounds = self.readings[-1].temperature_c, self.bounds
        match self.after.severity:
            case None:
                return (
                    f"Rack {subject} is back to normal: below {bounds.clear_below_c:.1f} °C, "
                    f"the latest {latest:.1f} °C."
                )
            case severity if severity == CRITICAL != bounds.severity:
                return f"Rack {subject} is overheating critically: it keeps on, the latest {latest:.1f} °C."
            case _:
                return (
                    f"Rack {subject} is overheating: {bounds.count} readings in a row at or above "
                    f"{bounds.threshold_c:.1f} °C, the latest {latest:.1f} °C."
                )


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
