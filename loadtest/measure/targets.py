"""Targets: which of a plan's targets a valid point missed."""

from loadtest.measure.gates import duration
from loadtest.measure.result import PointResult
from loadtest.plan import Targets


def missed_targets(point: PointResult, targets: Targets) -> list[str]:
    """Return a sentence for each missed target; a target without a measured value is missed."""
    latency = point.from_schedule or point.window_delay
    measured = {
        "p50": (latency.p50 if latency else None, targets.p50_ms),
        "p99": (latency.p99 if latency else None, targets.p99_ms),
        "max": (latency.max if latency else None, targets.max_ms),
    }
    missed = [
        f"{name} {'not measured' if value is None else duration(value)}, target {duration(target)}"
        for name, (value, target) in measured.items()
        if target is not None and (value is None or value > target)
    ]
    throughput, wanted = point.warm_throughput_per_s, targets.warm_records_per_s
    if wanted is not None and (throughput is None or throughput < wanted):
        found = "not measured" if throughput is None else f"{throughput:,.0f} records/s"
        missed.append(f"warm throughput {found}, target {wanted:,.0f} records/s")
    if targets.lag_growth is not None:
        limit = targets.lag_growth * point.rate
        if point.lag_slope is None:
            missed.append("lag growth not measured")
        elif point.lag_slope > limit:
            missed.append(
                f"lag grows by {point.lag_slope:,.0f} records/s, target at most {limit:,.0f}"
            )
    return missed
