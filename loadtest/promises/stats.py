"""Figures from repeated measurements on a noisy machine: percentiles, medians and their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with the 95 % interval of a bootstrap over the repeats (the range itself below four repeats)."""

    median: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        return f"{self.median:,.3g} ({self.low:,.3g} to {self.high:,.3g}, {self.repeats} repeats)"


def estimate(values: Sequence[float]) -> Estimate:
    """Return the median of the repeats and its interval; raise `ValueError` when there are none."""
    if not values:
        raise ValueError("nothing was measured")
    sample = np.asarray(values, dtype=float)
    if len(sample) < 4:  # too few to resample: say the whole range
        low, high = sample.min(), sample.max()
    else:
        draws = np.random.default_rng(1).choice(sample, size=(RESAMPLES, len(sample)))
        low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return Estimate(float(np.median(sample)), float(low), float(high), len(sample))


def latency_line(latencies_ms: Sequence[float]) -> str:
    """Return p50, p95, p99 and the maximum of latencies in milliseconds, as text."""
    p50, p95, p99, most = np.percentile(np.asarray(latencies_ms, dtype=float), [50, 95, 99, 100])
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms, max {most:.0f} ms of {len(latencies_ms):,}"
