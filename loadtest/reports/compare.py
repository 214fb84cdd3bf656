"""Compare two runs: means with 95 % intervals over the repeats, and a verdict.

The interval is Student's: mean ± t · s / √n, with s the standard deviation of the n repeats and t
the quantile of n - 1 degrees of freedom. The interval of a ratio follows by propagation of errors:
the squares of both relative half widths add up to that of its logarithm. One repeat has no
interval.

Two figures differ when the ratio's interval excludes 1 and its mean is 25 % or more; smaller
differences are noise on a shared machine. They are called alike only when the whole interval is
within 25 %. Otherwise the repeats cannot tell.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import msgspec

from events.cli import UserFacingError
from loadtest.measure.result import PointResult, SavedRun

MIN_DIFFERENCE = 0.25
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t for 95 %, two-sided, for 1 to 30 degrees of freedom."""
_NORMAL = 1.96
MACHINE_SPEED, CPU_PER_RECORD = "machine speed", "CPU µs per record"


def jobs_cpu(point: PointResult) -> float:
    """Return the CPU of the jobs, Python and JVM together, in percent of one processor."""
    return sum(
        used.cpu_percent for name, used in point.processes.items() if name.startswith("jobs")
    )


def cpu_us_per_record(point: PointResult) -> float | None:
    """Return the jobs' processor time per record in µs; in a catch-up with that of their start."""
    if not (point.jobs and point.processes):
        return None
    per_second_us = jobs_cpu(point) / 100 * 1e6
    if point.in_per_s:
        return per_second_us / point.in_per_s
    return per_second_us * point.work_s / point.sent if point.work_s and point.sent else None


METRICS: dict[str, Callable[[PointResult], float | None]] = {
    MACHINE_SPEED: lambda p: p.machine_speed,
    "p50 ms": lambda p: p.from_schedule.p50 if p.from_schedule else None,
    "p99 ms": lambda p: p.from_schedule.p99 if p.from_schedule else None,
    "max ms": lambda p: p.from_schedule.max if p.from_schedule else None,
    "window delay p50 ms": lambda p: p.window_delay.p50 if p.window_delay else None,
    "window delay p99 ms": lambda p: p.window_delay.p99 if p.window_delay else None,
    "window delay max ms": lambda p: p.window_delay.max if p.window_delay else None,
    "records/s": lambda p: p.throughput_per_s,
    "warm records/s": lambda p: p.warm_throughput_per_s,
    "startup s": lambda p: p.startup_s,
    "recovery s": lambda p: p.recovery_s,
    "batch p50 ms": lambda p: p.batches.p50_ms if p.batches else None,
    "state MiB": lambda p: (p.batches.state_mib or None) if p.batches else None,  # 0: not reported
    "jobs MiB": lambda p: p.jobs_mib,
    "checkpoint MiB": lambda p: p.checkpoint_mib or None,
    "jobs CPU %": lambda p: jobs_cpu(p) if p.jobs and p.processes else None,
    CPU_PER_RECORD: cpu_us_per_record,
}
"""The figures of a point in comparisons, curves and rows."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval over the repeats; infinite for one repeat."""

    mean: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        if self.repeats == 1:
            return f"{number(self.mean)} (one repeat)"
        interval = f"{number(self.low)} to {number(self.high)}"
        return f"{number(self.mean)} ({interval}, {self.repeats} repeats)"

    @classmethod
    def parse(cls, text: str) -> "Interval":
        """Return the interval from its text; a number alone counts as one repeat."""
        numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        mean, *rest = (float(each.replace(",", "")) for each in numbers)
        if not rest:
            return cls(mean, -math.inf, math.inf, 1)
        low, high, repeats = rest
        return cls(mean, low, high, int(repeats))


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of one point in both runs."""

    label: str
    metric: str
    a: Interval
    b: Interval

    @property
    def verdict(self) -> str:
        """Whether the figures differ, in words."""
        if 1 in (self.a.repeats, self.b.repeats):
            return "one repeat: cannot compare"
        if min(self.a.mean, self.b.mean) <= 0:
            return "cannot tell"
        change = ratio(self.b, self.a)
        mean, low, high = change.mean, change.low, change.high
        if (low > 1 or high < 1) and max(mean, 1 / mean) >= 1 + MIN_DIFFERENCE:
            return f"B is {mean:.2f} times A ({low:.2f} to {high:.2f})"
        if max(1 / low, high) < 1 + MIN_DIFFERENCE:
            limit = f"{100 * MIN_DIFFERENCE:.0f} %"
            return f"less than {limit} apart: B is {low:.2f} to {high:.2f} times A"
        return f"cannot tell: B is {low:.2g} to {high:.2g} times A"


def ratio(a: Interval, b: Interval) -> Interval:
    """Return the first over the second, with its interval."""
    mean = a.mean / b.mean
    factor = math.exp(math.hypot(*((each.high - each.mean) / each.mean for each in (a, b))))
    return Interval(mean, mean / factor, mean * factor, min(a.repeats, b.repeats))


def number(value: float | None) -> str:
    """Return a number with three digits, from 100 on as an integer; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of the repeats with its interval; raise `ValueError` for no repeat."""
    if not values:
        raise ValueError("nothing was measured")
    mean, count = fmean(values), len(values)
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    t = _T[count - 2] if count - 2 < len(_T) else _NORMAL
    half = t * stdev(values) / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)


def compare(a: SavedRun, b: SavedRun) -> Iterator[Difference]:
    """Yield every figure of the valid points that both runs have."""
    ours, theirs = figures(a.points), figures(b.points)
    for label, by_metric in ours.items():
        for metric, values in by_metric.items():
            other = theirs.get(label, {}).get(metric)
            if other:
                yield Difference(label, metric, interval(values), interval(other))


def select_variant(saved: SavedRun, variant: str) -> SavedRun:
    """Return a run with one variant's points, and labels without the variant's name."""
    points = [
        msgspec.structs.replace(point, label=point.label.removeprefix(f"{variant} "))
        for point in saved.points
        if point.variant == variant
    ]
    if not points:
        raise UserFacingError(f"the run {saved.run.name} has no variant {variant!r}.")
    return msgspec.structs.replace(saved, points=points)


def figures(points: Sequence[PointResult]) -> dict[str, dict[str, list[float]]]:
    """Return the values of valid points over the repeats, by label and metric."""
    found: dict[str, dict[str, list[float]]] = {}
    for point in points:
        if point.valid:
            for metric, get in METRICS.items():
                value = get(point)
                if value is not None:
                    found.setdefault(point.label, {}).setdefault(metric, []).append(float(value))
    return found
