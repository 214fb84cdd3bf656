"""Initial state: a new query that goes on from where another, or a table, had come.

`transformWithState` takes a grouped table; before the first batch, `handleInitialState` is called with each of its
rows. After that the state belongs to the checkpoint, and the table is not asked again.

Notice: user1 begins at 100. user2 is in the state although no amount came, and would go on from 50. Running it a
second time from the same checkpoint does not add the 100 again.
In production: No job: all their state can be made again from the topic; this is how one would begin after it is gone.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.lessons.frame.lab import Lab

TOTAL = T.StructType().add("total", T.LongType())


class Totals(StatefulProcessor):
    """A running total per user."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the total."""
        self.total = handle.getValueState("total", TOTAL)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803, ARG002
        """Begin with the total that the user had."""
        self.total.update((initialState.total,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Add the amounts of a batch."""
        (total,) = self.total.get() or (0,)
        total += sum(row.amount for row in rows)
        self.total.update((total,))
        yield Row(user=key[0], total=total)


def totals(amounts: DataFrame, before: DataFrame) -> DataFrame:
    """Return `user` and running `total`, from those in `before` on."""
    return amounts.groupBy("user").transformWithState(
        Totals(), "user string, total long", "update", "None", initialState=before.groupBy("user")
    )


def run(lab: Lab) -> Iterator[str]:
    """Run once, and again from the same checkpoint with the same amounts in another file."""
    before = lab.spark.read.schema("user string, total long").json(str(lab.data / "totals.json"))
    amounts = lab.stream("user string, amount long", "amounts.json")
    yield from lab.batches(totals(amounts, before), "update")
    lab.write((lab.data / "amounts.json").read_bytes(), "input/again.json")
    yield from lab.batches(totals(amounts, before), "update")
