"""Summarize Spark's batches: late records, durations and state."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from loadtest.measure.result import Batches

MIB = 2**20
Progress = Mapping[str, Any]


def late_records_per_s(batches: Sequence[Progress], seconds: float) -> float | None:
    """Return the records per second that were dropped as late; None if no batch reports them."""
    late_records = [b["late_records"] for b in batches if b["late_records"] is not None]
    return sum(late_records) / seconds if late_records else None


def summarize(batches: Sequence[Progress]) -> Batches | None:
    """Return the batches' durations and largest state; None without batches."""
    if not batches:
        return None
    durations = [float(b["batchDuration"]) for b in batches]
    states = [state_of(b) for b in batches]
    return Batches(
        count=len(durations),
        p50_ms=float(np.median(durations)),
        max_ms=max(durations),
        state_rows=max(rows for rows, _ in states),
        state_mib=round(max(size for _, size in states) / MIB, 1),
    )


def state_of(batch: Progress) -> tuple[int, int]:
    """Return the rows and bytes of state after a batch; 0 rows where Spark does not count them."""
    operators = batch["stateOperators"]
    rows = sum(int(operator["numRowsTotal"]) for operator in operators)
    return rows, sum(int(operator["memoryUsedBytes"]) for operator in operators)
