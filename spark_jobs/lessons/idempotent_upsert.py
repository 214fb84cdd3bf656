"""Exactly once into a database: an upsert that knows which batches it has seen.

A batch that wrote but was not committed runs again with the same number and the same rows. A sink that remembers the
number in the same transaction as the rows can leave the repeated batch out. So at least once becomes exactly once.

Notice: user1 has spent 17. Adding without looking at the number makes 24 of it when the last batch runs again.
In production: `alerting` does this with `alert_id` in SQLite, in one transaction with what it read so far.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from pyspark.sql import DataFrame

from spark_jobs.lessons.frame.lab import Lab, finish

TABLES = """
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS totals (user TEXT PRIMARY KEY, amount INTEGER NOT NULL);
"""
ADD = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (user) DO UPDATE SET amount = amount + excluded.amount"


def add(database: str, rows: DataFrame, number: int, *, once: bool) -> None:
    """Add the amounts of a batch to the totals; with `once`, leave out a batch that was added before."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executescript(TABLES)
        new = connection.execute("INSERT OR IGNORE INTO batches VALUES (?)", [number]).rowcount
        if new or not once:
            connection.executemany(ADD, [(row.user, row.amount) for row in rows.collect()])


def run(lab: Lab) -> Iterator[str]:
    """Run two batches, delete the last commit, and run again: blindly, and by batch number."""
    amounts = lab.stream("user string, amount long", "1.json", "2.json")
    for once in (False, True):
        name = "by batch number" if once else "blindly"
        database = lab.path(f"{name}.sqlite3")
        query = amounts.writeStream.foreachBatch(partial(add, database, once=once)).trigger(availableNow=True)
        query = query.option("checkpointLocation", lab.path(name))
        for event in ("two batches", "the last again"):
            finish(query.start())
            with closing(sqlite3.connect(database)) as connection:
                totals = connection.execute("SELECT * FROM totals ORDER BY user").fetchall()
            yield f"{name}, {event}: {totals}"
            if event == "two batches":
                lab.remove(f"{name}/commits/1")
