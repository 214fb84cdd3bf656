"""Who has fallen silent? A timeout by the clock, which runs also when nothing comes at all.

With a timeout in processing time a group's function is called again when so much time has gone by since it last said
so, whether or not anything came for anybody: the query makes batches without data for it.

Notice: The devices are declared silent although no further row ever came; an event-time timeout would wait for ever.
It is the machine's clock that decides, so a replay of the same data gives something else, and after a pause of the
query everybody seems silent.
In production: `silent_sensor` and `lost_signal` have timers by the clock.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_jobs.lessons.frame.lab import Lab, started, table, wait_until

SILENT_AFTER_MS = 500


def silences(heartbeats: DataFrame) -> DataFrame:
    """Return `device` and `state`: `heard` with each heartbeat, `silent` once when none came for so long."""

    def listen(key: Any, _frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        said = "silent" if state.hasTimedOut else "heard"
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((True,))
            state.setTimeoutDuration(SILENT_AFTER_MS)
        yield pd.DataFrame({"device": [key[0]], "state": [said]})

    return heartbeats.groupBy("device").applyInPandasWithState(
        listen,
        "device string, state string",
        "seen boolean",
        "update",
        GroupStateTimeout.ProcessingTimeTimeout,
    )


def run(lab: Lab) -> Iterator[str]:
    """Hear two devices once, and wait."""
    said = silences(lab.stream("device string", "heartbeats.json"))
    with started(said.writeStream.outputMode("update").format("memory").queryName("said")) as query:
        wait_until(lambda: lab.spark.table("said").count() == 4)
        rows = [batch.numInputRows for batch in query.recentProgress]
    yield table(lab.spark.table("said"))
    yield f"rows read: {sum(rows)}, all in the first batch: {rows[0] == sum(rows)}"
