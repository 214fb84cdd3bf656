"""Processing-time timeout: detect silent devices without any new data.

With a timeout in processing time, Spark calls a group's function again when the timeout has passed
since its last call, whether or not new data arrived. The query runs batches without data for this
purpose.

Notice: The devices become silent although no further row came; an event-time timeout would wait for
ever. The machine's clock decides, so a replay of the same data gives another result, and every
device seems silent after the query was stopped for a while.
In production: `silent_sensor` uses processing-time timers, since all racks may be silent at once.
`lost_signal` counts readings in windows of event time, which the watermark closes.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from lessons.harness.context import LessonContext, format_table, started, wait_until

SILENT_AFTER_MS = 500


def silences(heartbeats: DataFrame) -> DataFrame:
    """Return `device` and `state`: `active` per batch with heartbeats, `silent` on timeout."""

    def on_heartbeats(
        key: Any, _frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        result = "silent" if state.hasTimedOut else "active"
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((True,))
            state.setTimeoutDuration(SILENT_AFTER_MS)
        yield pd.DataFrame({"device": [key[0]], "state": [result]})

    return heartbeats.groupBy("device").applyInPandasWithState(
        on_heartbeats,
        "device string, state string",
        "seen boolean",
        "update",
        GroupStateTimeout.ProcessingTimeTimeout,
    )


def run(context: LessonContext) -> Iterator[str]:
    """Send one heartbeat of each of two devices, and wait."""
    states = silences(context.stream("device string", "heartbeats.json"))
    with started(
        states.writeStream.outputMode("update").format("memory").queryName("states")
    ) as query:
        wait_until(lambda: context.spark.table("states").count() == 4)
        rows = [batch.numInputRows for batch in query.recentProgress]
    yield format_table(context.spark.table("states"))
    yield f"rows read: {sum(rows)}, all in the first batch: {rows[0] == sum(rows)}"
