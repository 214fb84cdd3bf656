"""Find the highest sustained rate: double until one fails, then halve the gap."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadtest.measure.gates import duration
from loadtest.measure.result import PointResult
from loadtest.plan import CapacityBounds


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The highest sustained rate and the lowest failed rate; None where there is none."""

    sustained: float | None
    failed: float | None


def search(sustains: Callable[[float], bool], bounds: CapacityBounds) -> SearchResult:
    """Search from `low` to `high`; below a sustained rate all rates count as sustained."""
    sustained: float | None = None
    failed: float | None = None
    rate = bounds.low
    while failed is None:
        if not sustains(rate):
            failed = rate
        elif rate == bounds.high:
            return SearchResult(rate, None)
        else:
            sustained, rate = rate, min(rate * 2, bounds.high)
    if sustained is None:
        return SearchResult(None, failed)
    while failed / sustained > 1 + bounds.precision:
        middle = round_rate((sustained * failed) ** 0.5)
        if not sustained < middle < failed:
            break
        if sustains(middle):
            sustained = middle
        else:
            failed = middle
    return SearchResult(sustained, failed)


def round_rate(rate: float) -> float:
    """Return the rate rounded to two and a half digits: 20,000, 28,000, 28,500."""
    step = 10.0 ** (len(f"{rate:.0f}") - 2) / 2
    return round(rate / step) * step


def majority_sustains(outcomes: Iterator[list[str]], repeats: int) -> bool:
    """Return whether more than half of the repeats had no violation, running as few as needed."""
    sustained = failed = 0
    for violated in outcomes:
        sustained, failed = sustained + (not violated), failed + bool(violated)
        if 2 * sustained > repeats or 2 * failed >= repeats:
            break
    return 2 * sustained > repeats


def violations(point: PointResult, bounds: CapacityBounds) -> list[str]:
    """Return why a point's rate is not sustained; empty when it is."""
    if not point.valid:
        return point.reasons
    found = []
    if bounds.lag_growth >= 1:
        pass  # a lag grows at most by the rate: any growth is allowed, even one not measured
    elif point.lag_slope is None:
        found.append("too few batches or outputs to measure the lag's growth")
    elif point.lag_slope > bounds.lag_growth * point.rate:
        found.append(
            f"the lag grows by {point.lag_slope:,.0f} records/s, "
            f"limit {bounds.lag_growth * point.rate:,.0f}"
        )
    if not point.latencies:
        found.append("no latency was measured")
    found += [
        f"{kind}p99 {duration(latency.p99)}, limit {duration(bounds.p99_ms)}"
        for kind, latency in point.latencies.items()
        if latency.p99 > bounds.p99_ms
    ]
    if (point.late_per_s or 0.0) > bounds.late_per_s:
        found.append(
            f"{point.late_per_s:,.0f} records/s dropped as late, limit {bounds.late_per_s:,.0f}"
        )
    return found
