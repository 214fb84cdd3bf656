"""Percentiles of latencies by HdrHistogram: three digits, from a microsecond to two hours."""

from collections.abc import Iterable

from hdrh.histogram import HdrHistogram
from msgspec import Struct

DIGITS = 3
LONGEST_US = 2 * 3600 * 1_000_000


class Percentiles(Struct, frozen=True, kw_only=True):
    """A distribution of latencies, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float
    p999: float
    max: float


def percentiles(latencies_ms: Iterable[float]) -> Percentiles | None:
    """Return the percentiles; None without latencies.

    A latency below a microsecond counts as one: both clocks have a resolution of a millisecond.
    """
    histogram = HdrHistogram(1, LONGEST_US, DIGITS)
    longest = 0.0
    for latency in latencies_ms:
        histogram.record_value(min(max(round(latency * 1000), 1), LONGEST_US))
        longest = max(longest, latency)
    if not histogram.total_count:
        return None
    at = {p: histogram.get_value_at_percentile(p) / 1000 for p in (50, 95, 99, 99.9)}
    return Percentiles(
        count=histogram.total_count,
        p50=at[50],
        p95=at[95],
        p99=at[99],
        p999=at[99.9],
        max=round(longest, 3),
    )
