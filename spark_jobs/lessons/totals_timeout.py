"""Totals per user that end an hour after the user's latest transaction: a timeout in event time.

The function says until when a group's state should live. When the watermark has passed that moment, it is called once
more, without rows, and may say goodbye and remove the state.

Notice: user1's hour ends at 04:50, an hour after 03:50 and not after 03:00: each row moves it. The watermark is
behind the newest row by ten minutes and takes effect a batch later, so the totals end late, but never early; user2's
transaction of 04:45 was in time, at a watermark of 03:40. When nobody sends anything, nothing ends.
In production: `user_totals` keeps totals for ever; `user_sessions` ends sessions by the watermark.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from spark_jobs.lessons.frame.lab import Lab

HOUR_MS = 3_600_000


def totals(transactions: DataFrame) -> DataFrame:
    """Return `userId`, `total` and `state` (`open` or `ended`); in: `userId`, `transactionTime`, `amount`."""

    def add(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        total, latest = state.get if state.exists else (0.0, 0)
        if state.hasTimedOut:
            state.remove()
        else:
            for frame in frames:
                total += float(frame["amount"].sum())
                latest = max(latest, int(frame["ms"].max()))
            state.update((total, latest))
            state.setTimeoutTimestamp(latest + HOUR_MS)
        yield pd.DataFrame(
            {"userId": [key[0]], "total": [total], "state": ["open" if state.exists else "ended"]}
        )

    late = transactions.withColumn("ms", F.unix_millis("transactionTime")).withWatermark(
        "transactionTime", "10 minutes"
    )
    return late.groupBy("userId").applyInPandasWithState(
        add, "userId string, total double, state string", "total double, latest long", "update",
        GroupStateTimeout.EventTimeTimeout,
    )  # fmt: skip


def run(lab: Lab) -> Iterator[str]:
    """Let transactions come until user1's hour is over."""
    transactions = lab.stream(
        "userId string, transactionTime timestamp, amount double", *(f"{n}.json" for n in range(1, 5))
    )
    yield from lab.batches(totals(transactions), "update", progress=True)
