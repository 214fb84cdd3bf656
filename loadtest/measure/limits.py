"""Tell which of a plan's limits a valid point violated."""

from loadtest.measure.gates import duration
from loadtest.measure.result import PointResult
from loadtest.plan import Limits


def violated_limits(point: PointResult, limits: Limits) -> list[str]:
    """Return a sentence for each violated limit; without a measured value it is violated."""
    bounds = {"p50": limits.p50_ms, "p99": limits.p99_ms, "max": limits.max_ms}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    violated = [
        f"{kind}{name} {duration(value)}, limit {duration(limit)}"
        for kind, latency in point.latencies.items()
        for name, limit in given.items()
        if (value := getattr(latency, name)) > limit
    ]
    if not point.latencies:
        violated += [
            f"{name} not measured, limit {duration(limit)}" for name, limit in given.items()
        ]
    throughput, lowest = point.warm_throughput_per_s, limits.warm_records_per_s
    if lowest is not None and (throughput is None or throughput < lowest):
        found = "not measured" if throughput is None else f"{throughput:,.0f} records/s"
        violated.append(f"warm throughput {found}, limit {lowest:,.0f} records/s")
    if limits.lag_growth is not None:
        highest = limits.lag_growth * point.rate
        if point.lag_slope is None:
            violated.append("lag growth not measured")
        elif point.lag_slope > highest:
            violated.append(f"lag grows by {point.lag_slope:,.0f} records/s, limit {highest:,.0f}")
    return violated
