"""A batch that exceeds its trigger interval delays the next, and missed triggers are skipped.

Many texts say that a query with an interval of N seconds runs a batch every N seconds. It does not:
the interval says only when a batch may start. While a batch runs, the next one waits, and starts as
soon as the long one has ended. Spark does not catch up on the triggers that passed meanwhile.

Notice: No data is lost: the next batch is larger, unless a limit applies. A run prints the measured
times below the output.
In production: `--progress` writes the durations of each batch to a file, for `archive` as for every
job. A job falls behind when its batches read fewer records than arrive; the same file has the lag.
"""

import itertools
from collections.abc import Iterator
from threading import Event

from pyspark.sql import DataFrame

from lessons.harness.context import LessonContext, started

INTERVAL_MS = 200
BATCH_MS = 500


def run(context: LessonContext) -> Iterator[str]:
    """Run batches of 500 ms with a trigger interval of 200 ms."""

    def slow(rows: DataFrame, _number: int) -> None:
        rows.collect()
        Event().wait(BATCH_MS / 1000)

    files = context.stream("file int", "1.json", "2.json", "3.json")
    with started(
        files.writeStream.foreachBatch(slow).trigger(processingTime=f"{INTERVAL_MS} milliseconds")
    ) as query:
        query.processAllAvailable()
        progress = [p for p in query.recentProgress if p.numInputRows]
    starts = [int(p.timestamp[17:19]) * 1000 + int(p.timestamp[20:23]) for p in progress]
    gaps = [(later - earlier) % 60_000 for earlier, later in itertools.pairwise(starts)]
    durations = [p.durationMs["triggerExecution"] for p in progress]
    context.measurements.append(f"interval {INTERVAL_MS} ms, batches of {durations} ms")
    context.measurements.append(f"from one start to the next: {gaps} ms")
    yield f"batches: {len(progress)}"
    yield f"every batch took longer than the interval: {all(ms > INTERVAL_MS for ms in durations)}"
    sequential = all(gap >= ms for gap, ms in zip(gaps, durations, strict=False))
    yield f"no batch started before the previous one had ended: {sequential}"
