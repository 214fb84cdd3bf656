"""How fast was a catch-up? Told by Spark's batches where it ends by itself, else by when its outputs came."""

from collections.abc import Mapping, Sequence
from typing import Any


def by_batches(
    batches: Mapping[str, Sequence[Mapping[str, Any]]],
) -> tuple[float | None, float | None]:
    """Return records a second of all batches (Spark's progress by query), and without the first; None for no batch."""
    rows = [b for read in batches.values() for b in read if b["numInputRows"]]
    return _per_second(rows), _per_second(rows[1:])


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
