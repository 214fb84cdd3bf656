"""Rows from nowhere: `rate` by the clock, `rate-micro-batch` by the batch.

`rate` makes so many rows per second since the query began, numbered from 0, with the time at which each is due.
`rate-micro-batch` makes the same number of rows in every batch, with times that you choose: what it gives depends on
nothing but its options, so it can be tested.

Data: None: both sources make their own rows.
Notice: `rate` is only checked for what does not depend on the clock. `rate-micro-batch` never has enough: each batch
is followed by another, and available-now, which waits until a source has no more, ends after one.
In production: The producer makes events, since a stream of numbers has no late, repeated or broken rows.
"""

import itertools
from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab, started, wait_until


def run(lab: Lab) -> Iterator[str]:
    """Take some rows of both sources."""
    rate = lab.spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=1).load()
    with started(rate.writeStream.format("memory").queryName("by_clock")):
        wait_until(lambda: lab.spark.table("by_clock").count() > 20)
    rows = lab.spark.table("by_clock").orderBy("value").limit(20).collect()
    yield f"rate: columns {', '.join(rate.columns)}"
    yield f"  the first values are 0 to 19: {[row.value for row in rows] == list(range(20))}"
    gaps = {round((b.timestamp - a.timestamp).total_seconds() * 1000) for a, b in itertools.pairwise(rows)}
    yield f"  milliseconds between rows: {sorted(gaps)}"
    batches = lab.spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=2, numPartitions=1, startTimestamp=1_500_000_000_000, advanceMillisPerBatch=60_000
    )
    yield "rate-micro-batch"
    yield from lab.batches(batches.load())
