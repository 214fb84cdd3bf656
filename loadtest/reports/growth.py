"""Compute how costs grow with the work: figures over racks or backlog size, and their slopes.

A slope is that of the least-squares line through the logarithms of work and cost: 0 for a constant
cost, 1 for a cost proportional to the work.
"""

from collections.abc import Callable, Sequence
from itertools import compress
from statistics import fmean
from typing import NamedTuple

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


class Growth(NamedTuple):
    """The costs of valid points of the same jobs, trigger and engine over what grows there."""

    label: str
    """What distinguishes these points from the run's others; empty if it has no others."""
    work: str
    curves: dict[str, Curve]


def growths(points: Sequence[PointResult]) -> list[Growth]:
    """Return what grows between points of the same jobs, trigger and engine."""
    kinds: dict[tuple[str, ...], list[PointResult]] = {}
    for point in points:
        if point.valid:
            kind = (", ".join(point.jobs), point.trigger, point.engine)
            kinds.setdefault(kind, []).append(point)
    differs = [len(set(values)) > 1 for values in zip(*kinds, strict=True)]
    found = [
        Growth(" ".join(compress(kind, differs)), *_curves(own)) for kind, own in kinds.items()
    ]
    return [each for each in found if each.curves]


def _curves(points: Sequence[PointResult]) -> tuple[str, dict[str, Curve]]:
    """Return what grows, and the curves of costs over it; empty if nothing does.

    Where racks and events grow together, the curves are over racks.
    """
    for work, amount in WORKS.items():
        amounts = sorted({amount(point) for point in points} - {0})
        if len(amounts) < 2:
            continue
        found: dict[str, Curve] = {}
        for cost in COSTS:
            value = METRICS[cost]
            curve = [
                (float(at), fmean(values))
                for at in amounts
                if (values := [v for p in points if amount(p) == at and (v := value(p))])
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
    found = growths(points)
    costs = [cost for cost in COSTS if any(cost in each.curves for each in found)]
    table = [[", ".join(dict.fromkeys(each.work for each in found)), *costs]]
    for label, _, curves in found:
        by_cost = {cost: dict(curves.get(cost, ())) for cost in costs}
        for at in sorted({at for curve in by_cost.values() for at in curve}):
            cells = [number(by_cost[cost].get(at)) for cost in costs]
            table.append([f"{label} {at:,.0f}".strip(), *cells])
        slopes = [f"{slope(curves[cost]):.2f}" if cost in curves else "" for cost in costs]
        table.append([f"{label} slope".strip(), *slopes])
    return table
