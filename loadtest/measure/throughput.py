"""Throughput of a catch-up: by Spark's batches where the jobs end, otherwise by output times."""

from collections.abc import Mapping, Sequence
from typing import Any

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


def from_outputs(
    count: int, started_ms: float, seen_ms: Sequence[float]
) -> tuple[float | None, float | None]:
    """Return records/s from the start to the last output, and of the last two thirds of outputs.

    Outputs come at an even rate of the records, so a third of them is a third of the work. The
    first third is left out as warm-up.
    """
    seen = sorted(seen_ms)
    if not seen or seen[-1] <= seen[len(seen) // 3]:
        return None, None
    total_s = (seen[-1] - started_ms) / 1000
    warm_s = (seen[-1] - seen[len(seen) // 3]) / 1000
    warm_share = 1 - (len(seen) // 3) / len(seen)
    return count / total_s, count * warm_share / warm_s


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
