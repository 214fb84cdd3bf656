"""How far does it go? The highest rate that is sustained: by doubling until it is not, then by halving the gap."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadtest.measure.result import PointResult
from loadtest.plan import Bounds


@dataclass(frozen=True, slots=True)
class Found:
    """The highest rate that held (None: not even the lowest did), and the lowest that did not (None: all held)."""

    held: float | None
    broke: float | None


def search(holds: Callable[[float], bool], bounds: Bounds) -> Found:
    """Search from `low` to `high`; what held at a rate is taken to hold below it."""
    held: float | None = None
    broke: float | None = None
    rate = bounds.low
    while broke is None:
        if not holds(rate):
            broke = rate
        elif rate == bounds.high:
            return Found(rate, None)
        else:
            held, rate = rate, min(rate * 2, bounds.high)
    if held is None:
        return Found(None, broke)
    while broke / held > 1 + bounds.precision:
        middle = two_digits((held * broke) ** 0.5)
        if not held < middle < broke:
            break
        if holds(middle):
            held = middle
        else:
            broke = middle
    return Found(held, broke)


def two_digits(rate: float) -> float:
    """Return the rate to two digits and a half: 20,000, 28,000, 28,500; readers remember those."""
    step = 10.0 ** (len(f"{rate:.0f}") - 2) / 2
    return round(rate / step) * step


def most(outcomes: Iterator[list[str]], repeats: int) -> bool:
    """Tell whether more than half of the repeats held (gave no complaint), without running more than it takes."""
    held = broke = 0
    for complaints in outcomes:
        held, broke = held + (not complaints), broke + bool(complaints)
        if 2 * held > repeats or 2 * broke >= repeats:
            break
    return 2 * held > repeats


def complaints(point: PointResult, bounds: Bounds) -> list[str]:
    """Say why a point's rate is not sustained; nothing when it is."""
    if not point.valid:
        return point.reasons
    found = []
    if point.lag_slope is None:
        found.append("there are too few batches or outputs to see whether the lag grows")
    elif point.lag_slope > bounds.slope * point.rate:
        found.append(f"the lag grows by {point.lag_slope:,.0f} records/s")
    latency = point.from_schedule or point.past_window
    if latency is None:
        found.append("no latency was measured")
    elif latency.p99 > bounds.p99_ms:
        found.append(f"p99 is {latency.p99:,.0f} ms, above {bounds.p99_ms:,.0f}")
    if (point.late_per_s or 0.0) > bounds.late_per_s:
        found.append(f"{point.late_per_s:,.0f} records/s are dropped as late")
    return found
