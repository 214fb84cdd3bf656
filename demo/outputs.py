"""Read the outputs of the pipeline: alerting's log and database, and the jobs' topics."""

import sqlite3
import time
from collections import Counter
from pathlib import Path

import msgspec
from kafka import KafkaConsumer, TopicPartition

from alerting.decoding import SourceRecord, decode_alert
from alerting.store import Counts, read_alerts, read_counts
from dashboard.received import UNREADABLE
from demo.clickstream import TOPICS
from demo.comparison import Row
from demo.verdict import Actual
from events.constants import CLOSED_WINDOW_HEADER
from events.settings import Settings
from events.times import now_ms
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    ALERTS,
    DEAD_LETTERS,
    DISTINCT_EVENTS,
    EVENT_TOPICS,
    INCIDENTS,
    RACK_TEMPERATURE,
    SIGNAL_STATISTICS,
    USER_SESSIONS,
    USER_TOTALS,
    Topic,
)

_ALL_RECORDS_COUNT = (DEAD_LETTERS, AD_ATTRIBUTION, USER_SESSIONS, DISTINCT_EVENTS)
_LAST_RECORD_COUNTS = (
    RACK_TEMPERATURE, SIGNAL_STATISTICS, USER_TOTALS, ACTION_COUNTS, INCIDENTS,
)  # fmt: skip
"""Topics in which a later record for a key replaces the earlier; in the others all count."""
READ_TOPICS = (*_ALL_RECORDS_COUNT, *_LAST_RECORD_COUNTS, ALERTS)
_KINDS = {
    topic.name: [
        msgspec.json.Decoder(each.record)
        for each in (EVENT_TOPICS[::-1] if topic is DISTINCT_EVENTS else (topic,))
        if each.record
    ]
    for topic in (*_ALL_RECORDS_COUNT, *_LAST_RECORD_COUNTS)
}
"""Decoders of the records that a topic may hold: `deduplicate` writes those of any event topic.

User actions come first, since it writes these by default. The decoders only check a value. Rows are
decoded without a type, so that they keep unknown fields.
"""
_REMOVABLE = {topic.name for topic in _LAST_RECORD_COUNTS if topic.compacted}
RECORDS_PER_POLL = 10_000
FETCH_BYTES, FETCH_WAIT_MS = 1 << 20, 500
"""The broker answers a fetch when it has so many bytes, or after so many milliseconds."""
READ_TO_END_S = 30.0
"""How long to read what the topics hold: so much only if the broker does not answer."""


class Outputs:
    """Reads the outputs while they are written, so that little is left to read at the end."""

    def __init__(
        self, settings: Settings, alert_database: Path, alert_log: Path | None = None
    ) -> None:
        """Without a log, the alerts are those of the database."""
        self._settings = settings
        self._alert_log = alert_log
        self._alert_database = alert_database
        self._names = {settings.topic(topic): topic.name for topic in READ_TOPICS}
        self._all: dict[str, list[bytes]] = {topic.name: [] for topic in _ALL_RECORDS_COUNT}
        self._last: dict[str, dict[bytes, bytes]] = {
            topic.name: {} for topic in _LAST_RECORD_COUNTS
        }
        self._other_records = Counter[str]()
        self._closed_windows: list[bytes] = []
        self._alert_records: list[tuple[int, int, int, bytes]] = []
        """Append time, partition, offset (the topic's order), and the value."""
        self.latest_record_at = time.monotonic()
        """When the last record arrived, on the monotonic clock."""
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.kafka_bootstrap_servers.split(","),
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
            # Updates of windows come all the time. Fetched one by one they would take a quarter of
            # a processor from the jobs.
            fetch_min_bytes=FETCH_BYTES,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        self._consumer.assign([part for topic in READ_TOPICS for part in self._partitions(topic)])

    def poll(self, wait_s: float) -> None:
        """Read the topics' new records; wait at most this long for one."""
        batches = self._consumer.poll(timeout_ms=int(wait_s * 1000), max_records=RECORDS_PER_POLL)
        if batches:
            self.latest_record_at = time.monotonic()
        for part, records in batches.items():
            name = self._names[part.topic]
            for record in records:
                if name == ALERTS.name:
                    if _is_alert(record):
                        self._alert_records.append(
                            (record.timestamp, record.partition, record.offset, record.value)
                        )
                elif record.value is None and name in _REMOVABLE:
                    self._last[name].pop(record.key, None)
                elif not any(_is_record(record.value, kind) for kind in _KINDS[name]):
                    self._other_records[name] += 1
                elif name in self._all:
                    self._all[name].append(record.value)
                else:
                    self._last[name][record.key] = record.value
                    if name == RACK_TEMPERATURE.name and CLOSED_WINDOW_HEADER in record.headers:
                        self._closed_windows.append(record.value)

    def has_alerts(self) -> bool:
        """Tell whether alerting has logged an alert."""
        log = self._alert_log
        return log is not None and log.exists() and log.stat().st_size > 0

    def actual(self, *, up_to_date: bool = False) -> Actual:
        """Return all outputs so far; `up_to_date`: read what the topics hold by now, too.

        Expected outages follow from the topic of alerts. An alert that alerting has logged is in
        the topic, so what it has logged is read before the topic.
        """
        counts, logged = self._counts(), self._logged_alerts()
        if up_to_date:
            self._read_to_end()
        return Actual(
            logged,
            counts.malformed,
            counts.repeats,
            self._rows(DEAD_LETTERS),
            self._rows(RACK_TEMPERATURE),
            {kind: self._rows(topic) for kind, topic in TOPICS.items()},
            [
                (msgspec.json.decode(value), append_ms)
                for append_ms, *_, value in sorted(self._alert_records)
            ],
            distinct=self._rows(DISTINCT_EVENTS),
            signal_statistics=self._rows(SIGNAL_STATISTICS),
            incidents=self._rows(INCIDENTS),
            closed_windows=[msgspec.json.decode(value) for value in self._closed_windows],
            read_ms=now_ms(),
            other_records=dict(self._other_records),
        )

    def _logged_alerts(self) -> list[Row]:
        if self._alert_log is None:
            return [msgspec.json.decode(alert) for alert in read_alerts(self._alert_database)]
        return read_json_lines(self._alert_log)

    def _rows(self, topic: Topic) -> list[Row]:
        values = self._all.get(topic.name) or self._last.get(topic.name, {}).values()
        return [msgspec.json.decode(value) for value in values]

    def has_unread_records(self) -> bool:
        """Tell whether the topics hold records that alerting, or this object, has not read."""
        # The topic is new, so that its offsets are counts.
        written = sum(self._consumer.end_offsets(self._partitions(ALERTS)).values())
        counts = self._counts()
        read_by_alerting = counts.alerts + counts.repeats + counts.malformed
        return written > read_by_alerting or self._is_behind(self._ends())

    def _read_to_end(self) -> None:
        ends, deadline = self._ends(), time.monotonic() + READ_TO_END_S
        while self._is_behind(ends) and time.monotonic() < deadline:
            self.poll(FETCH_WAIT_MS / 1000)

    def _ends(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(
            list(self._consumer.assignment())
        )
        return ends

    def _is_behind(self, ends: dict[TopicPartition, int]) -> bool:
        return any((self._consumer.position(part) or 0) < end for part, end in ends.items())

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()

    def _counts(self) -> Counts:
        """Return what alerting has counted of the topic of alerts."""
        try:
            return read_counts(self._alert_database, commands=False)
        except sqlite3.OperationalError:
            return Counts()  # alerting has only just started

    def _partitions(self, topic: Topic) -> list[TopicPartition]:
        return partitions_of(self._consumer, self._settings.topic(topic))


def partitions_of(consumer: KafkaConsumer, name: str) -> list[TopicPartition]:
    """Return the partitions that a topic has now; none if there is no such topic."""
    return [TopicPartition(name, number) for number in consumer.partitions_for_topic(name) or ()]


def _is_record(value: bytes | None, kind: "msgspec.json.Decoder[msgspec.Struct]") -> bool:
    """Tell whether a value is a record of a kind."""
    if value is None:
        return False
    try:
        kind.decode(value)
        value.decode()  # msgspec does not look at fields that the kind does not have
    except UNREADABLE:
        return False
    return True


def _is_alert(record: SourceRecord) -> bool:
    """Tell whether a record of the topic is an alert; alerting counts those that are not."""
    try:
        decode_alert(record, seen_time="")
    except ValueError:
        return False
    return True


def read_json_lines(path: Path) -> list[Row]:
    """Return the lines of a file that is being written; none if there is no file yet."""
    # A line that is being written has no end yet.
    text = path.read_bytes() if path.exists() else b""
    return [msgspec.json.decode(line) for line in text.rpartition(b"\n")[0].splitlines() if line]
