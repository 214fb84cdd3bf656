"""A batch that takes longer than its interval delays the next, and leaves out the moments that passed.

An interval says when a batch may begin, not when it does. While a batch runs, the next waits; it begins as soon as
the long one has ended, and the moments that went by meanwhile are not made up for.

Notice: What arrives meanwhile is not lost: the next batch is larger, unless a limit holds it back.
In production: `--progress` writes each batch's times; a job whose batches are longer than its interval falls behind.
"""

import itertools
from collections.abc import Iterator
from threading import Event

from pyspark.sql import DataFrame

from spark_jobs.lessons.frame.lab import Lab, started

INTERVAL_MS = 200
BATCH_MS = 500


def run(lab: Lab) -> Iterator[str]:
    """Run batches of half a second at an interval of a fifth."""

    def slow(rows: DataFrame, _number: int) -> None:
        rows.collect()
        Event().wait(BATCH_MS / 1000)

    files = lab.stream("file int", "1.json", "2.json", "3.json")
    with started(
        files.writeStream.foreachBatch(slow).trigger(processingTime=f"{INTERVAL_MS} milliseconds")
    ) as query:
        query.processAllAvailable()
        progress = [p for p in query.recentProgress if p.numInputRows]
    starts = [int(p.timestamp[17:19]) * 1000 + int(p.timestamp[20:23]) for p in progress]
    gaps = [(later - earlier) % 60_000 for earlier, later in itertools.pairwise(starts)]
    took = [p.durationMs["triggerExecution"] for p in progress]
    yield f"batches: {len(progress)}"
    yield f"every batch took longer than the interval: {all(ms > INTERVAL_MS for ms in took)}"
    yield f"no batch began before the one before had ended: {all(g >= t for g, t in zip(gaps, took, strict=False))}"
