"""Reading what came out: the truth file, alerting's log and database, and two topics."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
from kafka import KafkaConsumer, TopicPartition

from alerting.store import Counts, read_counts
from demo.verdict import Row, Seen, Truth
from events.settings import Settings
from events.topics import ALERTS, DEAD_LETTERS, RACK_TEMPERATURE, Topic

MOST_RECORDS = 10_000
"""So many records are taken from Kafka at once."""


def read_truth(path: Path) -> Truth:
    """Read the producer's truth file."""
    rows: dict[str, list[Row]] = {}
    for row in _json_lines(path.read_bytes()):
        rows.setdefault(row["kind"], []).append(row)
    (summary,) = rows["summary"]
    return Truth(summary, rows.get("alert", []), rows.get("dead-letter", []), rows.get("window", []))


class Outputs:
    """Follows the outputs while they are written, so that at the end little is left to read."""

    def __init__(self, settings: Settings, alert_log: Path, alert_database: Path) -> None:
        self._settings = settings
        self._alert_log = alert_log
        self._alert_database = alert_database
        self._letters: list[bytes] = []
        self._windows: dict[bytes, bytes] = {}
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.kafka_bootstrap_servers.split(","),
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
        )
        self._consumer.assign([*self._partitions(DEAD_LETTERS), *self._partitions(RACK_TEMPERATURE)])

    def follow(self, wait_s: float) -> None:
        """Take what the topics got; wait for something at most so long."""
        batches = self._consumer.poll(timeout_ms=int(wait_s * 1000), max_records=MOST_RECORDS)
        for part, records in batches.items():
            for record in records:
                if part.topic == self._settings.topic(DEAD_LETTERS):
                    self._letters.append(record.value)
                else:
                    self._windows[record.key] = record.value  # a later record for a key replaces the earlier

    def has_alerts(self) -> bool:
        """Tell whether alerting has logged one."""
        return self._alert_log.exists() and self._alert_log.stat().st_size > 0

    def seen(self) -> Seen:
        """Return all that came out so far."""
        # A line that is just being written has no end yet.
        logged = self._alert_log.read_bytes().rpartition(b"\n")[0] if self._alert_log.exists() else b""
        counts = self._counts()
        return Seen(
            _json_lines(logged),
            counts.malformed,
            counts.repeats,
            [msgspec.json.decode(value) for value in self._letters],
            [msgspec.json.decode(value) for value in self._windows.values()],
        )

    def are_behind(self) -> bool:
        """Tell whether the topics hold records that alerting, or this, has not taken."""
        alerts, ours = self._partitions(ALERTS), list(self._consumer.assignment())
        held = sum(self._consumer.end_offsets(alerts).values())  # the topic is new: offsets are counts
        counts = self._counts()
        ends = self._consumer.end_offsets(ours)
        return held > counts.alerts + counts.repeats + counts.malformed or any(
            (self._consumer.position(part) or 0) < ends[part] for part in ours
        )

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def _counts(self) -> Counts:
        try:
            return read_counts(self._alert_database)
        except sqlite3.OperationalError:
            return Counts()  # alerting has only just started

    def _partitions(self, topic: Topic) -> list[TopicPartition]:
        return [TopicPartition(self._settings.topic(topic), number) for number in range(topic.partitions)]


def _json_lines(data: bytes) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in data.splitlines() if line]
