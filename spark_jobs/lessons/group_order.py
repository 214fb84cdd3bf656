"""The order within a group is not given: a function sees its rows as they happen to come.

Rows of one group come together from all tasks of a batch, in the order in which tasks finish and files are read, not
in that of their times. What depends on an order has to make it: sort inside the function, or aggregate with an order.

Notice: With `last`, which goes by arrival, user1 ends at 2; by `max_by` at 3. Sorting inside the function orders one
batch alone: what comes in a later batch comes later, whatever its time.
In production: `overheating_state` sorts a batch by the topic's order, and decides by `sequence`.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_jobs.lessons.frame.lab import Lab

COLUMNS = ["user", "as they came", "sorted"]


def seen(key: Any, frames: Iterator[pd.DataFrame], _state: GroupState) -> Iterator[pd.DataFrame]:
    """Return a user's numbers as they came and sorted."""
    numbers = pd.concat(frames)["at"].tolist()
    yield pd.DataFrame([(key[0], str(numbers), str(sorted(numbers)))], columns=COLUMNS)


def run(lab: Lab) -> Iterator[str]:
    """Show the order of a group in a function, and in aggregates."""
    events = lab.stream("user string, at int", "events.json")
    schema = ", ".join(f"`{name}` string" for name in COLUMNS)
    rows = events.groupBy("user").applyInPandasWithState(
        seen, schema, "none int", "update", GroupStateTimeout.NoTimeout
    )
    yield from lab.batches(rows, "update", "function")
    figures = events.groupBy("user").agg(F.last("at").alias("last"), F.max_by("at", "at").alias("max_by"))
    yield from lab.batches(figures, "update", "aggregates")
