"""Is there room for a plan? Its disk and memory, estimated before it starts: an estimate that errs to too much."""

from collections.abc import Iterable
from dataclasses import dataclass

from loadtest.plan import Point, Settings

INPUT_BYTES = 320
"""A record in the broker's log, with its index and some copies."""
OUTPUT_BYTES = 900
"""A record's share of outputs, in the broker and in the consumer's file, where every record gives some."""
ROW_PER_RECORD = ("ad_attribution", "deduplicate")
"""The jobs that do so in micro-batches too; others write a row per key and batch."""
SPARE_BYTES = 2 * 10**9
"""Checkpoints, logs, Spark's shuffle, and room for the machine to breathe."""
PROGRAMS_BYTES = int(3.5 * 2**30)
"""Spark with a heap of 1 GiB and Python workers, the broker, the producer, the collector."""
TRUTH_BYTES = 160
"""A record's share of the producer's memory, where it keeps the truth; and of what is read back at the end."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a plan takes, in bytes: disk of all its points (the broker removes topics late), memory of the largest."""

    disk: int
    memory: int


def needs(points: Iterable[Point]) -> Needs:
    """Return what the points take."""
    found = list(points)
    kept = max((point.records for point in found if point.settings.truth), default=0)
    return Needs(
        disk=SPARE_BYTES + sum(point.records * _disk_bytes(point.settings) for point in found),
        memory=PROGRAMS_BYTES + kept * TRUTH_BYTES,
    )


def _disk_bytes(settings: Settings) -> int:
    few = not settings.jobs or (settings.ends_itself and not set(settings.jobs) & set(ROW_PER_RECORD))
    return INPUT_BYTES + (0 if few else OUTPUT_BYTES)


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
