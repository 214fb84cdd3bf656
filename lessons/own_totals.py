"""Running totals in three ways: with `groupBy`, and as own state in both Python APIs.

`groupBy` keeps a total per user by itself (lesson user_totals). As own state, Scala's two functions
are one in Python, and `transformWithState` is newer in all languages:

| function | language | rows per call | state of a key | without rows | store |
|---|---|---|---|---|---|
| `mapGroupsWithState` | Scala, Java | one; update mode only | one value | one timeout | any |
| `flatMapGroupsWithState` | Scala, Java | any number | one value | one timeout | any |
| `applyInPandasWithState` | Python | any number | one value | one timeout | any |
| `transformWithState` | all three | any number | values, lists, maps; TTL | timers | RocksDB |

| calls of the first three (`GroupState`) | calls of `transformWithState` |
|---|---|
| `exists`, `get`, `update`, `remove` | `exists`, `get`, `update`, `clear` of a `ValueState` |
| `setTimeoutTimestamp`, `setTimeoutDuration`, `hasTimedOut` | timers, `handleExpiredTimer` |

Data: The transactions of lesson user_totals.
Notice: Results and state rows are the same. The plans differ: `groupBy` adds up the rows of a task
before the shuffle, so one row per user and task travels. Own state gets every row, sorted by user,
and hands each to Python. So use an aggregate where there is one, and own state for the rest, such
as a total that ends by itself (lesson totals_timeout).
In production: `user_totals` has own state because its totals can end after an hour without a
purchase (`--state-retention ttl`), which those of an aggregate without a window cannot.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lessons.harness.context import BatchCollector, LessonContext, await_end, progress_table
from lessons.user_totals import transactions

DATA = Path(__file__).parent / "data" / "user_totals" / "transactions.json"
RESULT = "userId string, total decimal(28,2), transactions long"
STEPS = r"\w+Aggregate|Exchange|Sort|StateStore\w+|FlatMap\w+|TransformWith\w+"
STATE = T.StructType().add("total", T.DecimalType(28, 2)).add("transactions", T.LongType())


def built_in(rows: DataFrame) -> DataFrame:
    """Return the totals as an aggregate."""
    return rows.groupBy("userId").agg(
        F.sum("amount").alias("total"), F.count("*").alias("transactions")
    )


def with_group_state(rows: DataFrame) -> DataFrame:
    """Return the totals by a function that is called for each user with rows in a batch."""

    def add(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        total, count = state.get if state.exists else (0, 0)
        for frame in frames:
            total, count = total + frame["amount"].sum(), count + len(frame)
        state.update((total, count))
        yield pd.DataFrame({"userId": [key[0]], "total": [total], "transactions": [count]})

    return rows.groupBy("userId").applyInPandasWithState(
        add, RESULT, STATE, "update", GroupStateTimeout.NoTimeout
    )


class Totals(StatefulProcessor):
    """The totals of a user, in one value."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.totals = handle.getValueState("totals", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803, ARG002
        """Add the transactions of a batch."""
        total, count = self.totals.get() or (0, 0)
        for row in rows:
            total, count = total + row.amount, count + 1
        self.totals.update((total, count))
        yield Row(userId=key[0], total=total, transactions=count)


def with_processor(rows: DataFrame) -> DataFrame:
    """Return the totals by a stateful processor."""
    return rows.groupBy("userId").transformWithState(Totals(), RESULT, "update", "None")


def run(context: LessonContext) -> Iterator[str]:
    """Sum two files of transactions in all three ways."""
    lines = DATA.read_text(encoding="utf-8").splitlines(keepends=True)
    for number in range(2):
        context.add_file("".join(lines[2 * number : 2 * number + 2]), f"input/{number}.json")
    source = context.spark.readStream.option("maxFilesPerTrigger", 1).text(context.path("input"))
    for totals in (built_in, with_group_state, with_processor):
        collector = BatchCollector()
        writer = totals(transactions(source)).writeStream.outputMode("update")
        query = writer.foreachBatch(collector).trigger(availableNow=True).start()
        await_end(query)
        with redirect_stdout(StringIO()) as plan:
            query.explain()
        steps = re.findall(rf"\b({STEPS})\b", plan.getvalue())
        yield f"{totals.__name__}\n{collector.take()}\n{progress_table(query)}"
        yield f"plan, starting at the source: {', '.join(reversed(steps))}"
