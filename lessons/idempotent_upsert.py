"""Exactly once in a database: an upsert that stores the batch number with the rows.

A batch that wrote its rows but was not committed runs again with the same number and the same rows.
A sink that stores the number in the same transaction as the rows can skip the repeated batch.
At-least-once then becomes exactly once.

Notice: user1 has spent 17. Without the batch number, the repeated batch makes it 24.
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
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS totals (user TEXT PRIMARY KEY, amount INTEGER NOT NULL);
"""
ADD = """
INSERT INTO totals VALUES (?, ?)
ON CONFLICT (user) DO UPDATE SET amount = amount + excluded.amount
"""


def add(database: str, rows: DataFrame, number: int, *, once: bool) -> None:
    """Add the amounts of a batch to the totals; with `once`, skip a batch added before."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)
        new = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", [number]).rowcount
        if new or not once:
            connection.executemany(ADD, [(row.user, row.amount) for row in rows.collect()])


def run(context: LessonContext) -> Iterator[str]:
    """Run two batches, delete the last commit, run again: with and without batch numbers."""
    amounts = context.stream("user string, amount long", "1.json", "2.json")
    for once in (False, True):
        name = "with batch numbers" if once else "without batch numbers"
        database = context.path(f"{name}.sqlite3")
        query = amounts.writeStream.foreachBatch(partial(add, database, once=once)).trigger(
            availableNow=True
        )
        query = query.option("checkpointLocation", context.path(name))
        for event in ("after two batches", "after the last batch again"):
            await_end(query.start())
            with closing(sqlite3.connect(database)) as connection:
                totals = connection.execute("SELECT * FROM totals ORDER BY user").fetchall()
            yield f"{name}, {event}: {totals}"
            if event == "after two batches":
                context.remove(f"{name}/commits/1")
