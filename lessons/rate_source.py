"""Generated rows: `rate` per second, `rate-micro-batch` per batch.

`rate` generates a number of rows per second, numbered from 0, each with the time at which it is
due. `rate-micro-batch` generates the same number of rows in every batch, with timestamps that you
choose. Its output depends only on its options, so a test can check it.

Data: None: both sources generate their own rows.
Notice: The lesson checks only those properties of `rate` that do not depend on the clock.
`rate-micro-batch` never runs out of rows; available-now ends after one batch.
In production: The producer generates events instead, because generated numbers have no late,
duplicate or malformed rows.
"""

import itertools
from collections.abc import Iterator

from lessons.harness.context import LessonContext, started, wait_until


def run(context: LessonContext) -> Iterator[str]:
    """Read some rows of both sources."""
    rate = (
        context.spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=1).load()
    )
    with started(rate.writeStream.format("memory").queryName("by_clock")):
        wait_until(lambda: context.spark.table("by_clock").count() > 20)
    rows = context.spark.table("by_clock").orderBy("value").limit(20).collect()
    yield f"rate: columns {', '.join(rate.columns)}"
    yield f"  the first values are 0 to 19: {[row.value for row in rows] == list(range(20))}"
    gaps = {
        round((b.timestamp - a.timestamp).total_seconds() * 1000)
        for a, b in itertools.pairwise(rows)
    }
    yield f"  milliseconds between rows: {sorted(gaps)}"
    batches = context.spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=2,
        numPartitions=1,
        startTimestamp=1_500_000_000_000,
        advanceMillisPerBatch=60_000,
    )
    yield "rate-micro-batch"
    yield from context.run_batches(batches.load())
