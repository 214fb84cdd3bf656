"""The rate sources generate rows: `rate` per second, `rate-micro-batch` per batch.

`rate` generates a number of rows per second, numbered from 0, each with the time at which it is
due. Its options are `rowsPerSecond`, `rampUpTime` (how long it takes to reach that rate) and
`numPartitions`. `rate-micro-batch` generates the same number of rows in every batch, with
timestamps that you choose. Its output depends only on its options, so a test can check it.

Data: None: both sources generate their own rows.
Notice: The lesson checks only those properties of `rate` that do not depend on the clock. With a
ramp of one second, the first second has half of the rows. `rate-micro-batch` never runs out of
rows; available-now ends after one batch.
In production: `rack_temperature` and the other jobs are tried with the producer's events instead,
because generated numbers have no late, duplicate or malformed rows.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark.sql import functions as F

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
    yield from _ramp(context)
    batches = context.spark.readStream.format("rate-micro-batch").options(
        rowsPerBatch=2,
        numPartitions=1,
        startTimestamp=1_500_000_000_000,
        advanceMillisPerBatch=60_000,
    )
    yield "rate-micro-batch"
    yield from context.run_batches(batches.load())


def _ramp(context: LessonContext) -> Iterator[str]:
    options: dict[str, Any] = {"rowsPerSecond": 100, "rampUpTime": "1s", "numPartitions": 2}
    rate = context.spark.readStream.format("rate").options(**options).load()
    rows = rate.withColumn("partition", F.spark_partition_id())
    with started(rows.writeStream.format("memory").queryName("ramp")):
        wait_until(lambda: context.spark.table("ramp").count() >= 150)
    generated = context.spark.table("ramp").orderBy("value").limit(150).collect()
    start = generated[0].timestamp
    seconds = Counter(int((row.timestamp - start).total_seconds()) for row in generated)
    yield f"rate with {options}"
    yield f"  rows in the first and second second: {seconds[0]}, {seconds[1]}"
    yield f"  partitions: {sorted({row.partition for row in generated})}"
