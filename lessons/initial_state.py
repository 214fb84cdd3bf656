"""Initial state: a new query continues from the state of another query or a table.

`transformWithState` accepts a grouped DataFrame as its initial state. Before the first batch, Spark
calls `handleInitialState` with each of its rows. Afterwards the checkpoint has the state, and the
table is not read again.

Notice: user1 begins at 100. user2 has state although no amount came, and would continue from 50. A
second run from the same checkpoint does not add the 100 again.
In production: `silent_sensor` starts with a state for each rack of the inventory, so that it
reports racks that never sent a reading. All other state can be rebuilt from the topic. Where the
topic no longer has the records, an initial state is the way to start.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lessons.harness.context import LessonContext

TOTAL = T.StructType().add("total", T.LongType())


class Totals(StatefulProcessor):
    """A running total per user."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the total."""
        self.total = handle.getValueState("total", TOTAL)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803, ARG002
        """Start with the user's earlier total."""
        self.total.update((initialState.total,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Add the amounts of a batch."""
        (total,) = self.total.get() or (0,)
        total += sum(row.amount for row in rows)
        self.total.update((total,))
        yield Row(user=key[0], total=total)


def totals(amounts: DataFrame, before: DataFrame) -> DataFrame:
    """Return `user` and running `total`, starting from the totals in `before`."""
    return amounts.groupBy("user").transformWithState(
        Totals(), "user string, total long", "update", "None", initialState=before.groupBy("user")
    )


def run(context: LessonContext) -> Iterator[str]:
    """Run once, and again from the same checkpoint with the same amounts in another file."""
    before = context.spark.read.schema("user string, total long").json(
        str(context.data / "totals.json")
    )
    amounts = context.stream("user string, amount long", "amounts.json")
    yield from context.run_batches(totals(amounts, before), "update")
    context.add_file((context.data / "amounts.json").read_bytes(), "input/again.json")
    yield from context.run_batches(totals(amounts, before), "update")
