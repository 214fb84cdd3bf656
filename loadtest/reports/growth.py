"""Growth of costs with the work: figures over racks or backlog size, and their slopes.

A slope is that of the least-squares line through the logarithms of work and cost: 0 for a constant
cost, 1 for a cost proportional to the work.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np

from loadtest.measure.result import PointResult
from loadtest.reports.compare import METRICS, number

Curve = list[tuple[float, float]]
"""Work and mean cost over the repeats, by growing work."""
WORKS: dict[str, Callable[[PointResult], int]] = {
    "racks": lambda p: p.racks,
    "backlog events": lambda p: 0 if p.rate else p.sent,
}
COSTS = (
    "warm records/s", "startup s", "recovery s", "p99 ms", "batch p50 ms", "state MiB",
    "jobs MiB", "checkpoint MiB",
)  # fmt: skip


def curves(points: Sequence[PointResult]) -> tuple[str, dict[str, Curve]]:
    """Return what grows between valid points, and the curves of costs over it; empty if nothing.

    Where racks and events grow together, the curves are over racks.
    """
    valid = [point for point in points if point.valid]
    for work, amount in WORKS.items():
        amounts = sorted({amount(point) for point in valid} - {0})
        if len(amounts) < 2:
            continue
        found: dict[str, Curve] = {}
        for cost in COSTS:
            value = METRICS[cost]
            curve = [
                (float(at), fmean(values))
                for at in amounts
                if (values := [v for point in valid if amount(point) == at and (v := value(point))])
            ]
            if len(curve) > 1:
                found[cost] = curve
        return work, found
    return "", {}


def slope(curve: Curve) -> float:
    """Return the slope of a curve of positive numbers in logarithms."""
    work, cost = np.log(np.asarray(curve)).T
    return round(float(np.polyfit(work, cost, 1)[0]), 6) + 0.0  # no negative zero


def growth_table(points: Sequence[PointResult]) -> list[list[str]]:
    """Return a row of costs per amount of work, then the slopes; only a head if nothing grows."""
    work, found = curves(points)
    if not found:
        return [[work]]
    amounts = sorted({at for curve in found.values() for at, _ in curve})
    return [
        [work, *found],
        *(
            [f"{at:,.0f}", *(number(dict(curve).get(at)) for curve in found.values())]
            for at in amounts
        ),
        ["slope", *(f"{slope(curve):.2f}" for curve in found.values())],
    ]
