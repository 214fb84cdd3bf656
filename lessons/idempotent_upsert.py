"""Exactly once in a database: an upsert that stores the batch number with the rows.

A batch that wrote its rows but was not committed runs again with the same number and the same rows.
A sink that stores the number in the same transaction as the rows can skip the repeated batch.
At-least-once then becomes exactly once.

Every query counts its batches from 0. So the number is stored with a name of the query: otherwise
the batches of a second query into the same table would be skipped. A query with a new checkpoint
also counts from 0. It needs a new name, and a new table if it reads the same input again.

Notice: user1 has spent 17. Without the batch number, the repeated batch makes it 24. The second
query's batch 0 takes back 2 of user2, although the table already has a batch 0 of the first query.
In production: No job uses it. `alerting` does this with `alert_id` in SQLite, in one transaction
with its read position.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from pyspark.sql import DataFrame

from lessons.harness.context import LessonContext, await_end

TABLES = """
CREATE TABLE IF NOT EXISTS batches (query TEXT, number INTEGER, PRIMARY KEY (query, number));
CREATE TABLE IF NOT EXISTS totals (user TEXT PRIMARY KEY, amount INTEGER NOT NULL);
"""
ADD = """
INSERT INTO totals VALUES (?, ?)
ON CONFLICT (user) DO UPDATE SET amount = amount + excluded.amount
"""


def add(database: str, query: str, rows: DataFrame, number: int, *, once: bool) -> None:
    """Add the amounts of a query's batch to the totals; with `once`, skip one added before."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)
        batch = "INSERT OR IGNORE INTO batches VALUES (?, ?)"
        if connection.execute(batch, [query, number]).rowcount or not once:
            connection.executemany(ADD, [(row.user, row.amount) for row in rows.collect()])


def totals(database: str) -> list[tuple[str, int]]:
    """Return the total of each user."""
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT * FROM totals ORDER BY user").fetchall()


def run(context: LessonContext) -> Iterator[str]:
    """Run two batches, delete the last commit, run again: with and without batch numbers."""
    amounts = context.stream("user string, amount long", "1.json", "2.json")
    for once in (False, True):
        name = "with batch numbers" if once else "without batch numbers"
        database = context.path(f"{name}.sqlite3")
        sink = partial(add, database, "purchases", once=once)
        query = amounts.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = query.option("checkpointLocation", context.path(name))
        for event in ("after two batches", "after the last batch again"):
            await_end(query.start())
            yield f"{name}, {event}: {totals(database)}"
            if event == "after two batches":
                context.remove(f"{name}/commits/1")
    refunds = context.stream("user string, amount long", "refunds.json", into="refunds")
    sink = partial(add, database, "refunds", once=True)
    await_end(refunds.writeStream.foreachBatch(sink).trigger(availableNow=True).start())
    yield f"{name}, after a batch of a second query: {totals(database)}"
