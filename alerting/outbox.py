"""The outbox: notices that wait for their routes, in alerting's database, and what became of each.

A notice gets in together with what it tells of, in one transaction, so none is lost or made twice by a kill. It
leaves when the other side said that it has it: a kill in between sends it twice, with the same `notice_id`.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from alerting.notices import Notice

Outcome = Literal["delivered", "dead"]

PATIENCE_S = 600
"""How long the outbox waits for the transaction of a batch: as long as a terminal holds back what it shows."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notice at the head of a route's queue, and how often it was tried in vain."""

    number: int
    tries: int
    notice: Notice


class Outbox:
    """One route's queue. It has a connection of its own, for the thread in which it is used."""

    def __init__(self, database: Path, route: str) -> None:
        self._route = route
        self._db = sqlite3.connect(database, isolation_level=None, timeout=PATIENCE_S)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def head(self) -> Waiting | None:
        """Return the oldest notice that waits, None when there is none."""
        row = self._db.execute(
            "SELECT number, tries, notice FROM outbox JOIN notices USING (notice_id)"
            " WHERE route = ? AND outcome IS NULL ORDER BY number LIMIT 1",
            (self._route,),
        ).fetchone()
        return None if row is None else Waiting(row[0], row[1], _NOTICE.decode(row[2]))

    def failed(self, waiting: Waiting, error: str) -> None:
        """Count a try in vain, and why it was."""
        self._db.execute(
            "UPDATE outbox SET tries = tries + 1, error = ? WHERE number = ?", (error, waiting.number)
        )

    def done(self, waiting: Waiting, outcome: Outcome, time: str) -> None:
        """Take a notice out of the queue."""
        self._db.execute(
            "UPDATE outbox SET outcome = ?, outcome_time = ? WHERE number = ?",
            (outcome, time, waiting.number),
        )


def waiting_elsewhere(db: sqlite3.Connection, routes: Sequence[str]) -> dict[str, int]:
    """Return how many notices wait for each route that is not among these."""
    rows = db.execute("SELECT route, count(*) FROM outbox WHERE outcome IS NULL GROUP BY route")
    return {route: count for route, count in rows if route not in routes}


_NOTICE = msgspec.json.Decoder(Notice)
