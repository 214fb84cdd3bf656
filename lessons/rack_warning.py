"""Custom state with `applyInPandasWithState`: a warning after three consecutive hot readings.

Spark calls the function once for each rack that has rows in a batch, with all those rows and the
rack's state. The function reads, updates or removes the state, and yields rows of the result.

Notice: rack1 warns at 08:16:04 and rack2 at 08:16:08. rack3 had two consecutive hot readings, a
cool one, and one more. The function sorts its rows by time, because a group has no order; a wrong
clock would break that. Update and append mode give the same rows here; they differ in which
operators may follow.
In production: `overheating` orders by `sequence`, which the gateway counts, so a wrong clock hides
nothing.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from lessons.harness.context import LessonContext

THRESHOLD_C, CONSECUTIVE = 100.0, 3


def warnings(readings: DataFrame, mode: str, calls: "Accumulator[int]") -> DataFrame:
    """Return `rack`, `state` and `ts` of each change, from `rack`, `temperature` and `ts`."""

    def update_rack(
        key: Any, frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        calls.add(1)
        hot, warned = state.get if state.exists else (0, False)
        changes = []
        rows = pd.concat(frames).sort_values("ts")
        for temperature, ts in zip(rows["temperature"].tolist(), rows["ts"], strict=True):
            hot = hot + 1 if temperature >= THRESHOLD_C else 0
            if (hot >= CONSECUTIVE) != warned:
                warned = not warned
                changes.append((key[0], "WARNING" if warned else "NORMAL", ts))
        if hot or warned:
            state.update((hot, warned))
        elif state.exists:
            state.remove()
        yield pd.DataFrame(changes, columns=["rack", "state", "ts"])

    return readings.groupBy("rack").applyInPandasWithState(
        update_rack,
        "rack string, state string, ts timestamp",
        "hot int, warned boolean",
        mode,
        GroupStateTimeout.NoTimeout,
    )


def run(context: LessonContext) -> Iterator[str]:
    """Evaluate three racks, one file per batch in both modes, then all files in one batch."""
    files = ("rack1.json", "rack2.json", "rack3.json", "cool.json")
    schema = "rack string, temperature double, ts timestamp"
    for name, mode in (
        ("one file per batch", "update"),
        ("one file per batch", "append"),
        ("one batch", "update"),
    ):
        calls = context.spark.sparkContext.accumulator(0)
        readings = context.stream(schema, *files, into="input")
        if name == "one batch":
            readings = context.spark.readStream.schema(schema).json(context.path("input"))
        changes = warnings(readings, mode, calls).withColumn("ts", F.date_format("ts", "HH:mm:ss"))
        yield f"{name}, {mode}"
        yield from context.run_batches(changes, mode, f"{name} {mode}", progress=True)
        yield f"the function was called {calls.value} times"
