"""Queue notices in alerting's database until they are delivered, with the outcome of each.

A notice enters the outbox in the transaction that changes the incidents it is about, so a crash
neither loses nor repeats it. It leaves the outbox when the receiver has accepted it. A crash in
between sends it again with the same `notice_id`.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from alerting.notifications.notice import Notice

Outcome = Literal["delivered", "dead"]

BUSY_TIMEOUT_S = 600
"""How long to wait for the main thread's transaction; a paused terminal can delay its commit."""


@dataclass(frozen=True, slots=True)
class QueuedNotice:
    """A notice in a channel's queue, and its number of failed attempts."""

    number: int
    failed_attempts: int
    notice: Notice


class Outbox:
    """The queue of one channel, with a database connection of its own for the channel's thread."""

    def __init__(self, database: Path, channel: str) -> None:
        self._channel = channel
        self._db = sqlite3.connect(database, isolation_level=None, timeout=BUSY_TIMEOUT_S)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def head(self) -> QueuedNotice | None:
        """Return the oldest notice in the queue, or None."""
        row = self._db.execute(
            "SELECT number, failed_attempts, notice FROM outbox JOIN notices USING (notice_id)"
            " WHERE channel = ? AND outcome IS NULL ORDER BY number LIMIT 1",
            (self._channel,),
        ).fetchone()
        return None if row is None else QueuedNotice(row[0], row[1], _NOTICE_DECODER.decode(row[2]))

    def record_failure(self, queued: QueuedNotice, error: str) -> None:
        """Count a failed attempt and store its error."""
        self._db.execute(
            "UPDATE outbox SET failed_attempts = failed_attempts + 1, error = ? WHERE number = ?",
            (error, queued.number),
        )

    def record_outcome(self, queued: QueuedNotice, outcome: Outcome, time: str) -> None:
        """Remove a notice from the queue and store its outcome."""
        self._db.execute(
            "UPDATE outbox SET outcome = ?, outcome_time = ? WHERE number = ?",
            (outcome, time, queued.number),
        )


def count_waiting(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many notices wait for each channel that has any."""
    rows = db.execute("SELECT channel, count(*) FROM outbox WHERE outcome IS NULL GROUP BY channel")
    return dict(rows.fetchall())


def waiting_for_unset_channels(db: sqlite3.Connection, channels: Sequence[str]) -> dict[str, int]:
    """Return how many notices wait for each channel that is not in `channels`."""
    waiting = count_waiting(db).items()
    return {channel: count for channel, count in waiting if channel not in channels}


_NOTICE_DECODER = msgspec.json.Decoder(Notice)
