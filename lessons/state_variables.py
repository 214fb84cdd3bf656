"""transformWithState: value state, list state and map state in one processor.

A value state is one row. A list state appends without reading. A map state reads and writes single
keys, so a large map costs only what is touched. In Python every call is a round trip to the state
store.

Notice: State values are tuples, even with one field. `close` clears the user's list, and only the
list.
In production: `overheating` keeps many racks in one value: one read and one write per bucket of
racks and batch.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lessons.harness.context import LessonContext

COUNT = T.StructType().add("count", T.LongType())
NAME = T.StructType().add("name", T.StringType())


class Visits(StatefulProcessor):
    """A user's action count, pages since the last `close`, and count per page."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the three states."""
        self.count = handle.getValueState("count", COUNT)
        self.pages = handle.getListState("pages", NAME)
        self.per_page = handle.getMapState("per_page", NAME, COUNT)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Process a user's actions of a batch."""
        (count,) = self.count.get() or (0,)
        for row in rows:
            count += 1
            self.pages.appendValue((row.page,))
            (times,) = self.per_page.getValue((row.page,)) or (0,)
            self.per_page.updateValue((row.page,), (times + 1,))
            if row.action == "close":
                self.pages.clear()
        self.count.update((count,))
        pages = [page for (page,) in self.pages.get()]
        per_page = {page: times for (page,), (times,) in self.per_page.iterator()}
        yield Row(
            user=key[0], count=count, pages=str(pages), per_page=str(dict(sorted(per_page.items())))
        )


def visits(actions: DataFrame) -> DataFrame:
    """Return the three states of each user with actions in the batch."""
    return actions.groupBy("user").transformWithState(
        Visits(), "user string, count long, pages string, per_page string", "update", "None"
    )


def run(context: LessonContext) -> Iterator[str]:
    """Process two batches of two users."""
    yield from context.run_batches(
        visits(context.stream("user string, action string, page string", "1.json", "2.json")),
        "update",
    )
