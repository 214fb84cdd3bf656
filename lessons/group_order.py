"""Rows within a group have no defined order.

The rows of a group come from all tasks of a batch, in the order in which tasks finish and files are
read. A query that depends on an order has to create it: sort inside the function, or use an
aggregate with an order.

Notice: `last` follows arrival, and gives 2 for user1; `max_by` gives 3. Sorting inside the function
orders one batch only: rows of a later batch come later, whatever their time.
In production: `overheating` sorts a batch by the topic's order and decides by `sequence`.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from lessons.harness.context import LessonContext

COLUMNS = ["user", "as they came", "sorted"]


def orders(key: Any, frames: Iterator[pd.DataFrame], _state: GroupState) -> Iterator[pd.DataFrame]:
    """Return a user's numbers in arrival order and sorted."""
    numbers = pd.concat(frames)["at"].tolist()
    yield pd.DataFrame([(key[0], str(numbers), str(sorted(numbers)))], columns=COLUMNS)


def run(context: LessonContext) -> Iterator[str]:
    """Show the order of a group in a function and in aggregates."""
    events = context.stream("user string, at int", "events.json")
    schema = ", ".join(f"`{name}` string" for name in COLUMNS)
    rows = events.groupBy("user").applyInPandasWithState(
        orders, schema, "none int", "update", GroupStateTimeout.NoTimeout
    )
    yield from context.run_batches(rows, "update", "function")
    aggregates = events.groupBy("user").agg(
        F.last("at").alias("last"), F.max_by("at", "at").alias("max_by")
    )
    yield from context.run_batches(aggregates, "update", "aggregates")
