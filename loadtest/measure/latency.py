"""Compute latency percentiles by HdrHistogram: three digits, from a millisecond to two hours."""

from collections.abc import Iterable

from hdrh.histogram import HdrHistogram
from msgspec import Struct

DIGITS = 3
LONGEST_MS = 2 * 3600 * 1000


class Percentiles(Struct, frozen=True, kw_only=True):
    """A distribution of latencies, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float
    p999: float
    max: float


def percentiles(latencies_ms: Iterable[int]) -> Percentiles | None:
    """Return the percentiles; None without latencies.

    Both clocks have a resolution of a millisecond, so a latency may be negative and counts as 0.
    Percentiles are exact below two seconds. Above, the histogram rounds them down, so that none
    exceeds the maximum.
    """
    histogram = HdrHistogram(1, LONGEST_MS, DIGITS)
    longest = 0
    for latency in latencies_ms:
        histogram.record_value(min(max(latency, 0), LONGEST_MS))
        longest = max(longest, latency)
    if not histogram.total_count:
        return None
    at = {
        p: float(histogram.get_lowest_equivalent_value(histogram.get_value_at_percentile(p)))
        for p in (50, 95, 99, 99.9)
    }
    return Percentiles(
        count=histogram.total_count,
        p50=at[50],
        p95=at[95],
        p99=at[99],
        p999=at[99.9],
        max=longest,
    )
