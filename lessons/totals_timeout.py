"""Event-time timeout: a user's total ends an hour after the latest transaction.

The function sets a timeout for a group's state. When the watermark has passed it, Spark calls the
function once more, without rows, and the function may emit a last row and remove the state.

A timeout must not be older than the watermark, or Spark raises an error. A late row can ask for
such a timeout: rows are compared with the watermark of the previous batch (lesson late_rows). So
the function uses the watermark where an hour after the latest row is older.

Notice: The hour of user1 ends at 04:50, an hour after 03:50 and not after 03:00, because each row
moves the timeout. The watermark is ten minutes behind the newest row and applies one batch later,
so totals end late, but never early. The transaction of user2 at 04:45 was in time, at a watermark
of 03:40. The one of user4 at 05:30 came when the watermark was at 06:50, and its hour had passed:
the total ends with the next move of the watermark. Without new transactions no total ends.
In production: `user_totals --state-retention ttl` starts a total again after an hour of event time
without a purchase, and removes old state with a timer at the watermark. By default its totals never
expire. `user_sessions` ends sessions by the watermark.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from lessons.harness.context import LessonContext

HOUR_MS = 3_600_000


def totals(transactions: DataFrame) -> DataFrame:
    """Return `userId`, `total` and `state` (`open` or `ended`) of each user in a batch."""

    def add(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        total, latest = state.get if state.exists else (0.0, 0)
        if state.hasTimedOut:
            state.remove()
        else:
            for frame in frames:
                total += float(frame["amount"].sum())
                latest = max(latest, int(frame["ms"].max()))
            state.update((total, latest))
            state.setTimeoutTimestamp(max(latest + HOUR_MS, state.getCurrentWatermarkMs()))
        yield pd.DataFrame(
            {"userId": [key[0]], "total": [total], "state": ["open" if state.exists else "ended"]}
        )

    watermarked = transactions.withColumn("ms", F.unix_millis("transactionTime")).withWatermark(
        "transactionTime", "10 minutes"
    )
    return watermarked.groupBy("userId").applyInPandasWithState(
        add, "userId string, total double, state string", "total double, latest long", "update",
        GroupStateTimeout.EventTimeTimeout,
    )  # fmt: skip


def run(context: LessonContext) -> Iterator[str]:
    """Send transactions until the hours of three users have passed."""
    transactions = context.stream(
        "userId string, transactionTime timestamp, amount double",
        *(f"{n}.json" for n in range(1, 7)),
    )
    yield from context.run_batches(totals(transactions), "update", progress=True)
