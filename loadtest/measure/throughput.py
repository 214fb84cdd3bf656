"""Compute a catch-up's throughput: by Spark's batches where the jobs end, else by its outputs."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from events.topics import AD_ATTRIBUTION, RACK_TEMPERATURE
from loadtest.measure import lag

Batches = Mapping[str, Sequence[Mapping[str, Any]]]
"""Spark's progress by query."""


def from_batches(batches: Batches) -> tuple[float | None, float | None]:
    """Return records/s of all batches, and without the first batch of each start; None for none."""
    rows = [b for read in batches.values() for b in read if b["numInputRows"]]
    cold = [b for read in batches.values() for b in _first_batches(read)]
    return _per_second(rows), _per_second([b for b in rows if b not in cold])


def first_batch_seconds(batches: Batches, starts_ms: Sequence[int | None]) -> list[float | None]:
    """Return the seconds from each start to the end of its first batch (of the slowest query)."""
    firsts = [_first_batches(read) for read in batches.values()]
    found: list[float | None] = []
    for i, start_ms in enumerate(starts_ms):
        ends = [lag.end_ms(rows[i]) for rows in firsts if len(rows) > i]
        found.append((max(ends) - start_ms) / 1000 if ends and start_ms is not None else None)
    return found


def records_shown(
    outputs: Iterable[tuple[float, str, Mapping[str, Any]]],
) -> list[tuple[float, int]]:
    """Return when each output was seen, and how many records it is the first to show.

    In: time, topic and value of outputs in the order of their topics. A window shows the readings
    that it counts more than before, so that it does not matter how often it is written. A row
    without a click shows none: it comes when the watermark has passed.
    """
    counted: dict[tuple[str, str], int] = {}
    shown: list[tuple[float, int]] = []
    for seen_ms, topic, row in outputs:
        records = 1
        if topic == RACK_TEMPERATURE.name:
            key = row["scope"], row["window_start"]
            records = row["reading_count"] - counted.get(key, 0)
            counted[key] = row["reading_count"]
        elif topic == AD_ATTRIBUTION.name and row["click_id"] is None:
            records = 0
        shown.append((seen_ms, records))
    return shown


def from_outputs(
    count: int, started_ms: float, shown: Iterable[tuple[float, int]]
) -> tuple[float | None, float | None]:
    """Return records/s from the start to the last output, and of the last two thirds.

    In: what `records_shown` returns; outputs that show none are left out. Outputs show records at
    an even rate, so a third of what they show is a third of the work. The first third is left out
    as warm-up.
    """
    seen = sorted((moment, records) for moment, records in shown if records > 0)
    so_far = list(accumulate(records for _, records in seen))
    third = bisect_right(so_far, so_far[-1] / 3) if so_far else 0
    if not seen or seen[-1][0] <= seen[third][0]:
        return None, None
    total_s = (seen[-1][0] - started_ms) / 1000
    warm_s = (seen[-1][0] - seen[third][0]) / 1000
    return count / total_s, count * (1 - so_far[third] / so_far[-1]) / warm_s


def _first_batches(batches: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first batch with records of each start of a query."""
    by_start: dict[Any, Mapping[str, Any]] = {}
    for batch in batches:
        if batch["numInputRows"]:
            by_start.setdefault(batch["runId"], batch)
    return list(by_start.values())


def _per_second(batches: Sequence[Mapping[str, Any]]) -> float | None:
    seconds = sum(b["batchDuration"] for b in batches) / 1000
    return float(sum(b["numInputRows"] for b in batches) / seconds) if seconds else None
