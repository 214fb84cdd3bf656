"""A warning after three hot readings in a row: state of your own with `applyInPandasWithState`.

The function is called once for each rack that has rows in a batch, with all of them, and with the rack's state: it
exists or not, is read, updated, removed. What it yields are rows of the result.

Notice: rack1 warns at 08:16:04 and rack2 at 08:16:08; rack3 had two hot readings in a row, a cool one, and one more.
Readings are put in order by their time inside the group, since a group comes in no order: a clock that is wrong would
spoil that. Update and append mode give the same rows here; they differ in what may follow in the query.
In production: `overheating` orders by `sequence`, which the gateway counts, so that a wrong clock hides nothing.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_jobs.lessons.frame.lab import Lab

HOT, IN_A_ROW = 100.0, 3


def warnings(readings: DataFrame, mode: str, calls: "Accumulator[int]") -> DataFrame:
    """Return `rack`, `state` and `ts` of each change; in: `rack`, `temperature`, `ts`."""

    def follow(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        calls.add(1)
        hot, warned = state.get if state.exists else (0, False)
        changes = []
        rows = pd.concat(frames).sort_values("ts")
        for temperature, ts in zip(rows["temperature"].tolist(), rows["ts"], strict=True):
            hot = hot + 1 if temperature >= HOT else 0
            if (hot >= IN_A_ROW) != warned:
                warned = not warned
                changes.append((key[0], "WARNING" if warned else "NORMAL", ts))
        if hot or warned:
            state.update((hot, warned))
        elif state.exists:
            state.remove()
        yield pd.DataFrame(changes, columns=["rack", "state", "ts"])

    return readings.groupBy("rack").applyInPandasWithState(
        follow,
        "rack string, state string, ts timestamp",
        "hot int, warned boolean",
        mode,
        GroupStateTimeout.NoTimeout,
    )


def run(lab: Lab) -> Iterator[str]:
    """Follow three racks, a file for each, in both modes; then all files at once."""
    files = ("rack1.json", "rack2.json", "rack3.json", "cool.json")
    schema = "rack string, temperature double, ts timestamp"
    for name, mode in (("a file a batch", "update"), ("a file a batch", "append"), ("one batch", "update")):
        calls = lab.spark.sparkContext.accumulator(0)
        readings = lab.stream(schema, *files, into="input")
        if name == "one batch":
            readings = lab.spark.readStream.schema(schema).json(lab.path("input"))
        changes = warnings(readings, mode, calls).withColumn("ts", F.date_format("ts", "HH:mm:ss"))
        yield f"{name}, {mode}"
        yield from lab.batches(changes, mode, f"{name} {mode}", progress=True)
        yield f"the function was called {calls.value} times"
