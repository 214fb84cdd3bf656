"""TTL: state that goes by itself after a while, without a timer.

A state variable may be given a time to live, which begins anew with every write. Afterwards it reads as absent, and
is cleared away later. It goes by the clock, so the time mode must be ProcessingTime.

Notice: The count starts from 1 again after half a second of silence; the variable without TTL goes on. The query
makes batches without data all the time, and so never ends under available-now.
In production: No job: what a job forgets must not depend on when it runs.
"""

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.lessons.frame.lab import Lab, started, wait_until

TTL_MS = 500
COUNT = T.StructType().add("count", T.LongType())


class Counts(StatefulProcessor):
    """Counts a user's events twice: for ever, and since the last silence."""

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
    """Return `user` and both counts; in: `user`."""
    return events.groupBy("user").transformWithState(
        Counts(), "user string, ever long, lately long", "update", "ProcessingTime"
    )


def run(lab: Lab) -> Iterator[str]:
    """Send an event, wait until its time to live is over, send another."""
    events = lab.stream("user string", "events.json")
    with started(counts(events).writeStream.outputMode("update").format("memory").queryName("counts")):
        for number in (1, 2):
            wait_until(lambda n: lab.spark.table("counts").count() == n, number)
            row = lab.spark.table("counts").orderBy("ever").collect()[-1]
            yield f"event {number}: ever {row.ever}, lately {row.lately}"
            over = time.monotonic() + 2 * TTL_MS / 1000
            wait_until(lambda moment: time.monotonic() > moment, over)
            lab.write((lab.data / "events.json").read_bytes(), f"input/{number + 1}.json")
