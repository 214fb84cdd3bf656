"""How fast was a catch-up? Told by Spark's batches where it ends by itself, else by when its outputs came."""

from collections.abc import Mapping, Sequence
from typing import Any

from loadtest.measure import lag

Batches = Mapping[str, Sequence[Mapping[str, Any]]]
"""Spark's progress by query."""


def by_batches(batches: Batches) -> tuple[float | None, float | None]:
    """Return records a second of all batches, and without the first of each start; None for no batch."""
    rows = [b for read in batches.values() for b in read if b["numInputRows"]]
    cold = [b for read in batches.values() for b in _firsts(read)]
    return _per_second(rows), _per_second([b for b in rows if b not in cold])


def first_batches_s(batches: Batches, starts_ms: Sequence[int | None]) -> list[float | None]:
    """Return the seconds from each start to the end of the first batch after it; the last one's, of several queries."""
    firsts = [_firsts(read) for read in batches.values()]
    found: list[float | None] = []
    for i, start_ms in enumerate(starts_ms):
        ends = [lag.end_ms(rows[i]) for rows in firsts if len(rows) > i]
        found.append((max(ends) - start_ms) / 1000 if ends and start_ms is not None else None)
    return found


def _firsts(batches: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the first batch that read anything of each start of a query."""
    by_start: dict[Any, Mapping[str, Any]] = {}
    for batch in batches:
        if batch["numInputRows"]:
            by_start.setdefault(batch["runId"], batch)
    return list(by_start.values())


def by_outputs(count: int, started_ms: float, seen_ms: Sequence[float]) -> tuple[float | None, float | None]:
    """Return records a second from the start to the last output, and of the last two thirds of the outputs.

    Outputs come of readings at an even rate, so that a third of them is a third of the work; it is left out as warm-up.
    """
    seen = sorted(seen_ms)
    if not seen or seen[-1] <= seen[len(seen) // 3]:
        return None, None
    whole_s = (seen[-1] - started_ms) / 1000
    warm_s = (seen[-1] - seen[len(seen) // 3]) / 1000
    warm_share = 1 - (len(seen) // 3) / len(seen)
    return count / whole_s, count * warm_share / warm_s


def _per_second(batches: Sequence[Mapping[str, Any]]) -> float | None:
    seconds = sum(b["batchDuration"] for b in batches) / 1000
    return float(sum(b["numInputRows"] for b in batches) / seconds) if seconds else None
