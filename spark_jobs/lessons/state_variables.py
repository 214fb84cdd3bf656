"""transformWithState: a processor with states of three kinds, a value, a list and a map.

A value is one row, a list grows at its end without being read, a map is looked up key by key. Each is kept in the
store by itself, so a large map costs only what is touched. Python's every call is a round trip to the store.

Notice: Value, list and map are all tuples, also with one field. `close` clears the user's list, and only the list.
In production: `overheating` keeps many racks in one value: one read and one write per bucket of racks and batch.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_jobs.lessons.frame.lab import Lab

COUNT = T.StructType().add("count", T.LongType())
NAME = T.StructType().add("name", T.StringType())


class Visits(StatefulProcessor):
    """Counts a user's actions, keeps the pages since the last `close`, and counts per page."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the three states."""
        self.count = handle.getValueState("count", COUNT)
        self.pages = handle.getListState("pages", NAME)
        self.per_page = handle.getMapState("per_page", NAME, COUNT)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Take a user's actions of a batch."""
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
        yield Row(user=key[0], count=count, pages=str(pages), per_page=str(dict(sorted(per_page.items()))))


def visits(actions: DataFrame) -> DataFrame:
    """Return the three states of each user who did something in the batch."""
    return actions.groupBy("user").transformWithState(
        Visits(), "user string, count long, pages string, per_page string", "update", "None"
    )


def run(lab: Lab) -> Iterator[str]:
    """Follow two users over two batches."""
    yield from lab.batches(
        visits(lab.stream("user string, action string, page string", "1.json", "2.json")), "update"
    )
