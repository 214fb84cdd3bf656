"""Measure how long alerts take from the moment when their rule can decide, from rows alone."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.comparison import Row
from events.catalog import RULE_JOBS
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

    A job that starts late finds them in its first batch. They tell how late it started.
    """

    by_rule: Mapping[str, Delay]
    before_first_batch: Delay | None


def first_batches(progress: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return when each query had ended its first batch with records, in epoch ms, by its name.

    In: Spark's progress of each batch, in order. A batch without records does not count: only with
    records does a job start its Python workers and load its code.
    """
    ends: dict[str, int] = {}
    for batch in progress:
        if batch["numInputRows"]:
            end_ms = to_ms(batch["timestamp"]) + int(batch["durationMs"]["triggerExecution"])
            ends.setdefault(batch["name"], end_ms)
    return ends


def alert_delays(
    expected: Sequence[Row],
    alert_topic: Sequence[tuple[Row, int]],
    ready_ms: Mapping[str, int],
) -> Delays:
    """Return the delays of the expected alerts that came.

    In: alerts with the `decidable_time`; the topic `alerts` with append times, and when each job
    had ended its first batch with records, both in epoch ms. A real-time batch ends after minutes,
    so a job without that time was ready when its first alert was appended.
    """
    appended_ms: dict[str, int] = {}
    for row, append_ms in alert_topic:
        appended_ms.setdefault(row["alert_id"], append_ms)
    first_alert_ms: dict[str, int] = {}
    for row, append_ms in alert_topic:
        first_alert_ms[row["rule"]] = min(append_ms, first_alert_ms.get(row["rule"], append_ms))
    by_rule: dict[str, list[float]] = defaultdict(list)
    before: list[float] = []
    for row in expected:
        alert_ms = appended_ms.get(row["alert_id"])
        if alert_ms is None or "decidable_time" not in row:
            continue
        rule, decidable_ms = row["rule"], to_ms(row["decidable_time"])
        was_ready_ms = ready_ms.get(RULE_JOBS[rule], first_alert_ms[rule])
        delays_s = by_rule[rule] if decidable_ms >= was_ready_ms else before
        delays_s.append((alert_ms - decidable_ms) / 1000)
    return Delays(
        {rule: _delay(delays_s) for rule, delays_s in by_rule.items()},
        _delay(before) if before else None,
    )


def _delay(delays_s: Sequence[float]) -> Delay:
    return Delay(len(delays_s), statistics.median(delays_s), max(delays_s))
