"""Compute the lag (records that are sent but not yet processed) over time, and its trend.

Spark commits no offsets to Kafka. In micro-batches the lag at the end of a batch is what the topics
held at that time less what the batches had read. A real-time batch lasts minutes; there the lag is
the latency of outputs times the rate (Little's law).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from events.times import to_ms
from spark_jobs.runtime.status_recorder import reached as reached_by_topic

Series = list[tuple[float, float]]
"""Times in epoch seconds, with the lag in records at each."""
MIN_POINTS = 3
"""Fewer points have no trend."""


def batch_lag(batches: Sequence[Mapping[str, Any]], topic_sizes: Series) -> Series:
    """Return the lag at the end of each batch of one query.

    In: Spark's progress of the batches, and the number of records in its topics over time.
    """
    if not topic_sizes:
        return []
    moments, counts = zip(*topic_sizes, strict=True)
    lag: Series = []
    for batch in batches:
        end_s = end_ms(batch) / 1000
        lag.append((end_s, max(0.0, float(np.interp(end_s, moments, counts)) - reached(batch))))
    return lag


def end_ms(batch: Mapping[str, Any]) -> int:
    """Return when a batch ended, in epoch milliseconds."""
    return to_ms(batch["timestamp"]) + int(batch["batchDuration"])


def reached(batch: Mapping[str, Any]) -> int:
    """Return the sum of a batch's end offsets over all topics and partitions."""
    return sum(reached_by_topic(batch).values())


def unread(batch: Mapping[str, Any], ends: Mapping[str, int]) -> int:
    """Return how many records of its topics a batch has not read; `ends` are the topics' sizes."""
    return sum(
        max(0, ends.get(topic, 0) - count) for topic, count in reached_by_topic(batch).items()
    )


def output_lag(seen: Sequence[tuple[float, float]], rate: float) -> Series:
    """Return the lag of each second: the median latency of its outputs times the rate.

    In: the times at which outputs were seen (epoch s) with their latencies (ms); records/s.
    """
    by_second: dict[int, list[float]] = {}
    for moment, latency_ms in seen:
        by_second.setdefault(int(moment), []).append(latency_ms)
    return [(s + 0.5, float(np.median(by_second[s])) / 1000 * rate) for s in sorted(by_second)]


def slope(lag: Series) -> float | None:
    """Return the lag's growth in records/s by least squares; None for fewer than three points."""
    if len(lag) < MIN_POINTS:
        return None
    moments, records = np.array(lag, dtype=float).T
    away = moments - moments.mean()
    if not away.any():
        return None
    return float((away * (records - records.mean())).sum() / (away * away).sum())


def between(lag: Series, begin_s: float, end_s: float) -> Series:
    """Return the points of an interval."""
    return [(moment, records) for moment, records in lag if begin_s <= moment <= end_s]
