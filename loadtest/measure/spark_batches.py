"""What do Spark's batches say? How much came too late, how long they took, how much state they held."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loadtest.measure.result import Batches

MIB = 2**20
Progress = Mapping[str, Any]


def late(batches: Sequence[Progress], seconds: float) -> float | None:
    """Return how many records a second came too late to count, in so many seconds; None where no batch tells."""
    told = [b["late_records"] for b in batches if b["late_records"] is not None]
    return sum(told) / seconds if told else None


def summed_up(batches: Sequence[Progress]) -> Batches | None:
    """Return how long batches took and how much state they held at most; None where there are none."""
    if not batches:
        return None
    took = [float(b["batchDuration"]) for b in batches]
    states = [state_of(b) for b in batches]
    return Batches(
        count=len(took),
        p50_ms=float(np.median(took)),
        max_ms=max(took),
        state_rows=max(rows for rows, _ in states),
        state_mib=round(max(size for _, size in states) / MIB, 1),
    )


def state_of(batch: Progress) -> tuple[int, int]:
    """Return how many rows of state there were after a batch (0 where they are not counted), and their bytes."""
    operators = batch["stateOperators"]
    rows = sum(int(operator["numRowsTotal"]) for operator in operators)
    return rows, sum(int(operator["memoryUsedBytes"]) for operator in operators)
