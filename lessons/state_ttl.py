"""State with a TTL expires by itself, without a timer.

A state variable may have a time to live, which restarts with every write. An expired value reads as
absent, and Spark removes it later. TTL uses the clock, so the time mode must be ProcessingTime.

Notice: The count with a TTL restarts from 1 after half a second without events; the other count
continues. The query runs batches without data all the time, so it never ends with available-now.
In production: No job uses it: what a job removes must not depend on when it runs.
(`--state-retention ttl` of `user_totals` is a timer at the watermark.)
"""

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lessons.harness.context import LessonContext, started, wait_until

TTL_MS = 500
COUNT = T.StructType().add("count", T.LongType())


class Counts(StatefulProcessor):
    """Two counts of a user's events, one without and one with a TTL."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open both counts."""
        self.ever = handle.getValueState("ever", COUNT)
        self.lately = handle.getValueState("lately", COUNT, TTL_MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Count the batch's events."""
        count = len(list(rows))
        found = {}
        for name, state in (("ever", self.ever), ("lately", self.lately)):
            found[name] = (state.get() or (0,))[0] + count
            state.update((found[name],))
        yield Row(user=key[0], **found)


def counts(events: DataFrame) -> DataFrame:
    """Return `user` and both counts, from `user`."""
    return events.groupBy("user").transformWithState(
        Counts(), "user string, ever long, lately long", "update", "ProcessingTime"
    )


def run(context: LessonContext) -> Iterator[str]:
    """Send an event, wait until its time to live is over, send another."""
    events = context.stream("user string", "events.json")
    with started(
        counts(events).writeStream.outputMode("update").format("memory").queryName("counts")
    ):
        for number in (1, 2):
            wait_until(lambda n: context.spark.table("counts").count() == n, number)
            row = context.spark.table("counts").orderBy("ever").collect()[-1]
            yield f"event {number}: ever {row.ever}, lately {row.lately}"
            expired = time.monotonic() + 2 * TTL_MS / 1000
            wait_until(lambda deadline: time.monotonic() > deadline, expired)
            context.add_file(
                (context.data / "events.json").read_bytes(), f"input/{number + 1}.json"
            )
