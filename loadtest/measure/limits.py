"""Limits: which of a plan's limits a valid point violated."""

from loadtest.measure.gates import duration
from loadtest.measure.result import PointResult
from loadtest.plan import Limits


def violated_limits(point: PointResult, limits: Limits) -> list[str]:
    """Return a sentence for each violated limit; without a measured value it is violated."""
    latency = point.from_schedule or point.window_delay
    measured = {
        "p50": (latency.p50 if latency else None, limits.p50_ms),
        "p99": (latency.p99 if latency else None, limits.p99_ms),
        "max": (latency.max if latency else None, limits.max_ms),
    }
    violated = [
        f"{name} {'not measured' if value is None else duration(value)}, limit {duration(limit)}"
        for name, (value, limit) in measured.items()
        if limit is not None and (value is None or value > limit)
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
