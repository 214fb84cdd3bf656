"""Is there room for a plan? Its disk and memory, estimated before it starts: an estimate that errs to too much."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.plan import Point

INPUT_BYTES = 320
"""A record in the broker's log, with its index and some copies."""
OUTPUT_BYTES = 900
"""A record's share of outputs, in the broker and in the consumer's file, where every record gives some."""
SPARE_BYTES = 2 * 10**9
"""Checkpoints, logs, Spark's shuffle, and room for the machine to breathe."""
PROGRAMS_BYTES = int(3.5 * 2**30)
"""Spark with a heap of 1 GiB and Python workers, the broker, the producer, the collector."""
TRUTH_BYTES = 160
"""A record's share of the producer's memory, when it keeps the truth; and of what is read back at the end."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a plan takes, in bytes: disk of all its points (the broker removes topics late), memory of the largest."""

    disk: int
    memory: int


def needs(points: Iterable[Point]) -> Needs:
    """Return what the points take."""
    records = [point.records for point in points]
    return Needs(
        disk=SPARE_BYTES + sum(records) * (INPUT_BYTES + OUTPUT_BYTES),
        memory=PROGRAMS_BYTES + max(records, default=0) * TRUTH_BYTES,
    )


def shortage(wanted: Needs, free_disk: int, free_memory: int) -> str | None:
    """Return one sentence when there is too little of something, None when there is enough."""
    if free_disk < wanted.disk:
        return (
            f"this plan may take {_gb(wanted.disk)} of disk and {_gb(free_disk)} are free: free some, set "
            "RACKSTREAM_HOME to a larger disk, or plan less (rate, duration, repeats)."
        )
    if free_memory < wanted.memory:
        return (
            f"this plan may take {_gb(wanted.memory)} of memory and {_gb(free_memory)} are free: end other "
            "programs, or plan less (rate, duration)."
        )
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
