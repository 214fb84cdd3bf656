"""Measure how long alerts take from the moment when their rule can decide, from rows alone."""

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from demo.comparison import Row
from events.catalog import RULE_JOBS
from events.driver_starts import DriverStart
from events.times import to_ms


@dataclass(frozen=True, slots=True)
class Delay:
    """Delays of some alerts, in seconds."""

    alerts: int
    p50_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Delays:
    """The delays by rule; `before_first_batch` has the alerts that were due before their job ran.

    A job that starts late, or again, finds them in its first batch. They tell how long it was away.
    """

    by_rule: Mapping[str, Delay]
    before_first_batch: Delay | None


def alert_delays(
    expected: Sequence[Row],
    alert_topic: Sequence[tuple[Row, int]],
    starts: Sequence[DriverStart],
) -> Delays:
    """Return the delays of the expected alerts that came.

    In: alerts with the `decidable_time`; the topic `alerts` in its order, with append times in
    epoch ms; what is known of the starts of drivers, the first one first.

    The latest start before an alert was appended is that of the driver which wrote it. The alert
    was due before the first batch if it was due before its job was ready after that start. Where
    this is unknown, the job was ready when its first alert after the start was appended.
    """
    started_ms: dict[str, list[int]] = defaultdict(list)
    ready_ms: dict[tuple[str, int], int] = {}
    for start in starts:
        for job, ready_time in start.ready_times.items():
            started_ms[job].append(to_ms(start.started_time))
            if ready_time:
                ready_ms[job, len(started_ms[job])] = to_ms(ready_time)

    def job_and_start(rule: str, append_ms: int) -> tuple[str, int]:
        """Return a rule's job and the number of the start; 0 is before those that are known."""
        job = RULE_JOBS[rule]
        return job, bisect_right(started_ms[job], append_ms)

    appended_ms: dict[str, int] = {}
    first_alert_ms: dict[tuple[str, int], int] = {}
    for row, append_ms in alert_topic:
        appended_ms.setdefault(row["alert_id"], append_ms)
        first_alert_ms.setdefault(job_and_start(row["rule"], append_ms), append_ms)
    by_rule: dict[str, list[float]] = defaultdict(list)
    before: list[float] = []
    for row in expected:
        alert_ms = appended_ms.get(row["alert_id"])
        if alert_ms is None or "decidable_time" not in row:
            continue
        rule, decidable_ms = row["rule"], to_ms(row["decidable_time"])
        written_by = job_and_start(rule, alert_ms)
        was_ready_ms = ready_ms.get(written_by, first_alert_ms[written_by])
        delays_s = by_rule[rule] if decidable_ms >= was_ready_ms else before
        delays_s.append((alert_ms - decidable_ms) / 1000)
    return Delays(
        {rule: _delay(delays_s) for rule, delays_s in by_rule.items()},
        _delay(before) if before else None,
    )


def _delay(delays_s: Sequence[float]) -> Delay:
    return Delay(len(delays_s), statistics.median(delays_s), max(delays_s))
