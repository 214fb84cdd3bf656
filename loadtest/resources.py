"""Estimate a plan's disk and memory generously before it starts."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from events.catalog import JobName
from loadtest.plan import RULES, Point, PointSettings

INPUT_BYTES = 320
"""An input record in the broker's log, with its index and some duplicates."""
OUTPUT_BYTES = 900
"""An input record's share of outputs, in the broker and in the collector's file."""
ROW_PER_RECORD: tuple[JobName, ...] = ("ad_attribution", "deduplicate")
"""Jobs that write a row per record in micro-batches too; others write a row per key and batch."""
READINGS_PER_ALERT = 10
"""A generous share: a rule writes only changes, in the plans about every thirtieth reading."""
POINTS_ON_DISK = 3
"""Points whose records are on disk at once: the broker removes files a minute after their topic."""
SPARE_BYTES = 2 * 10**9
"""Checkpoints, logs, Spark's shuffle, and spare disk for the machine."""
PROGRAMS_BYTES = int(3.5 * 2**30)
"""Spark with a heap of 1 GiB and Python workers, the broker, the producer, the collector."""
TRUTH_BYTES = 160
"""A record's share of memory where the producer keeps the truth."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a plan needs, in bytes.

    Disk is the sum over its largest points, as many as are on disk at once; memory is the largest.
    """

    disk: int
    memory: int


def estimate(points: Iterable[Point]) -> Resources:
    """Return what the points need."""
    planned = list(points)
    disk = (point.records * _disk_bytes(point.settings) for point in planned)
    kept = max((point.records for point in planned if point.settings.truth), default=0)
    return Resources(
        disk=SPARE_BYTES + sum(nlargest(POINTS_ON_DISK, disk)),
        memory=PROGRAMS_BYTES + kept * TRUTH_BYTES,
    )


def _disk_bytes(settings: PointSettings) -> int:
    jobs = set(settings.jobs)
    if not jobs or (settings.terminates and not jobs & set(ROW_PER_RECORD)):
        return INPUT_BYTES
    if jobs <= RULES.keys():
        return INPUT_BYTES + OUTPUT_BYTES // READINGS_PER_ALERT
    return INPUT_BYTES + OUTPUT_BYTES


def shortage(needed: Resources, free_disk: int, free_memory: int) -> str | None:
    """Return a sentence when disk or memory is too small; None when both suffice."""
    if free_disk < needed.disk:
        return (
            f"this plan may need {_gb(needed.disk)} of disk, {_gb(free_disk)} are free: "
            "free some, set RACKSTREAM_HOME to a larger disk, or lower rate, duration or repeats."
        )
    if free_memory < needed.memory:
        return (
            f"this plan may need {_gb(needed.memory)} of memory, {_gb(free_memory)} are free: "
            "end other programs, or lower rate or duration."
        )
    return None


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
