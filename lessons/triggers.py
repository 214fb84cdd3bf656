"""When a batch starts: immediately, at intervals, once, or for all available data.

Without a trigger, a batch starts when the previous one has ended and there is new data. With an
interval, it waits for the next multiple of the interval. `once` makes one batch of all available
data and ignores limits. `availableNow` reads the same data in batches within the limits, then ends.
Two more triggers have their own lessons: continuous and real_time.

Notice: `once` reads all files in one batch. A year of data would be one batch too, and after a
failure that batch starts again from its beginning. Nor does `once` run the further batch in which a
new watermark closes windows. Since Spark 3.4 it is deprecated in favour of available-now. After a
restart each query resumes where it stopped.
In production: `--trigger` of `python -m spark_jobs run`: real-time, micro-batch or available-now.
`rack_temperature` has all three.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from lessons.harness.context import BatchCollector, LessonContext, started, wait_until

TRIGGERS: dict[str, dict[str, Any]] = {
    "default": {},
    "every 2 s": {"processingTime": "2 seconds"},
    "every 5 s": {"processingTime": "5 seconds"},
    "once": {"once": True},
    "available now": {"availableNow": True},
}


def batch_starts(query: StreamingQuery) -> list[str]:
    """Return the start of each finished batch with data."""
    return [batch.timestamp for batch in query.recentProgress if batch.numInputRows]


def has_batches(query: StreamingQuery, count: int) -> bool:
    """Say whether a query has finished this many batches with data."""
    return len(batch_starts(query)) >= count


def run(context: LessonContext) -> Iterator[str]:
    """Read two files with each trigger, stop, and restart with a third."""
    for name, trigger in TRIGGERS.items():
        files = context.stream("file int", "1.json", "2.json", into=name)
        for start in ("first start", "restart"):
            if start == "restart":
                context.add_files("3.json", into=name)
            collector = BatchCollector()
            writer = files.writeStream.foreachBatch(collector).option(
                "checkpointLocation", context.path(f"checkpoint {name}")
            )
            with started(writer.trigger(**trigger) if trigger else writer) as query:
                if "processingTime" in trigger:  # processAllAvailable waits for one more interval
                    wait_until(has_batches, query, 2 if start == "first start" else 1)
                else:
                    query.processAllAvailable()
                if name in ("once", "available now"):
                    wait_until(lambda running: not running.isActive, query)
                ended = not query.isActive
                starts = batch_starts(query)
            batches = [" ".join(text.split()) for text in collector.texts]
            yield f"{name}, {start}: {batches}, ended by itself: {ended}"
            if len(starts) == 2 and "every" in name:
                seconds = int(name.split()[1])
                first, second = (int(start[17:19]) // seconds for start in starts)
                waited = second != first
                yield f"  the second batch waited for the next multiple of {seconds} s: {waited}"
