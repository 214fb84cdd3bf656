"""In which order the outputs are read while jobs and alerting go on, and what is counted."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from alerting.store import Counts, Store
from demo import outputs
from demo.outputs import Outputs
from events.records import encode
from events.settings import Settings
from events.topics import ALERTS, DEAD_LETTERS, DISTINCT_EVENTS, INCIDENTS, USER_TOTALS
from tests.alerting import FakeRecord
from tests.builders import action, alert_value, click, incident, reading

FIRST, SECOND = (json.loads(alert_value(number)) for number in (1, 2))
PARTITION = TopicPartition(Settings().topic(ALERTS), 0)


class AlertsConsumer:
    """A consumer of the topic of alerts, which has one partition here."""

    def __init__(self, **_: Any) -> None: ...

    def assign(self, parts: list[TopicPartition]) -> None:
        """Take the partitions that the reader asks for."""

    def partitions_for_topic(self, _: str) -> set[int] | None:
        """Return the numbers of a topic's partitions."""
        return {0}

    def assignment(self) -> set[TopicPartition]:
        """Return the one partition."""
        return {PARTITION}


def test_alerts_that_alerting_has_logged_are_in_the_topic_as_it_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()
    logged = [FIRST]

    class Consumer(AlertsConsumer):
        """While the record is read, alerting logs one more."""

        read = 0

        def end_offsets(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(parts, 1)

        def position(self, _: TopicPartition) -> int:
            return self.read

        def poll(self, **_: Any) -> dict[TopicPartition, list[Any]]:
            self.read = 1
            logged.append(SECOND)
            value = json.dumps(FIRST).encode()
            return {PARTITION: [SimpleNamespace(timestamp=5, partition=0, offset=0, value=value)]}

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    monkeypatch.setattr(outputs, "read_counts", lambda *_, **__: Counts())
    monkeypatch.setattr(outputs, "read_alerts", lambda _: [json.dumps(row) for row in logged])
    reader = Outputs(settings, tmp_path / "database")
    assert reader.actual().alert_topic == []
    actual = reader.actual(up_to_date=True)
    assert (actual.alerts, actual.alert_topic) == ([FIRST], [(FIRST, 5)])


def test_all_partitions_are_read_also_of_a_topic_that_has_more_than_the_contract(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assigned: list[TopicPartition] = []

    class Consumer(AlertsConsumer):
        """Somebody has added partitions to one topic, and deleted another one."""

        def partitions_for_topic(self, name: str) -> set[int] | None:
            return {ALERTS.name: set(range(6)), INCIDENTS.name: None}.get(name, {0})

        def assign(self, parts: list[TopicPartition]) -> None:
            assigned.extend(parts)

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    Outputs(Settings(), tmp_path / "database")
    numbers = {
        topic: {part.partition for part in assigned if part.topic == topic.name}
        for topic in outputs.READ_TOPICS
    }
    assert numbers.pop(ALERTS) == set(range(6))
    assert numbers.pop(INCIDENTS) == set()
    assert set(map(frozenset, numbers.values())) == {frozenset({0})}


def test_what_is_no_record_of_its_topic_is_left_out_and_an_incident_has_its_last_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()
    alert = json.dumps(FIRST).encode()
    no_alerts = [
        b"null",
        b'"no alert"',
        b"{}",
        b"7",
        alert.replace(b"Rack 1", b"Rack \xff"),
        alert.replace(b"{", b'{"unknown": "\xff", ', 1),
        alert.replace(b"{", b'{"unknown": ' + b"[" * 10_000 + b"]" * 10_000 + b", ", 1),
    ]
    first, last = (encode(incident(summary=text)) for text in ("first", "last"))
    events = [encode(action("a")), encode(click("c")), encode(reading(1))]
    not_utf8 = events[0].replace(b"{", b'{"unknown": "\xff", ', 1)
    deep = b"[" * 10_000 + b"]" * 10_000
    unread: dict[str, list[tuple[str, bytes | None]]] = {
        ALERTS.name: [("key", value) for value in (alert, None, *no_alerts)],
        INCIDENTS.name: [("a", first), ("b", first), ("a", last), ("b", None), ("a", b"{}")],
        DISTINCT_EVENTS.name: [("key", value) for value in (*events, not_utf8, b"{", deep)],
        DEAD_LETTERS.name: [("key", None)],
        USER_TOTALS.name: [("key", None)],
    }

    class Consumer(AlertsConsumer):
        """It returns the records at once."""

        def poll(self, **_: Any) -> dict[TopicPartition, list[Any]]:
            return {
                TopicPartition(settings.topic_prefix + name, 0): [
                    SimpleNamespace(
                        timestamp=5,
                        partition=0,
                        offset=offset,
                        key=key.encode(),
                        value=value,
                    )
                    for offset, (key, value) in enumerate(records)
                ]
                for name, records in unread.items()
            }

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    monkeypatch.setattr(outputs, "read_counts", lambda *_, **__: Counts())
    monkeypatch.setattr(outputs, "read_alerts", lambda _: [])
    reader = Outputs(settings, tmp_path / "database")
    reader.poll(0)
    actual = reader.actual()
    assert actual.alert_topic == [(FIRST, 5)]
    assert actual.incidents == [json.loads(last)]
    assert actual.distinct == [json.loads(event) for event in events]
    assert actual.other_records == {
        "incidents": 1, "distinct-events": 3, "dead-letters": 1, "user-totals": 1,
    }  # fmt: skip


def test_a_malformed_command_is_not_counted_as_a_record_of_alerts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()

    class Consumer(AlertsConsumer):
        """It has read everything."""

        written = 2

        def end_offsets(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
            return {part: self.written if part == PARTITION else 0 for part in parts}

        def position(self, _: TopicPartition) -> int:
            return self.written

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    database, seen = tmp_path / "database", "2026-11-21T06:30:00.000Z"
    with Store(database) as store, store.transaction():
        store.ingest_alerts([FakeRecord(0, alert_value(1)), FakeRecord(1, b"no alert")], seen)
        store.ingest_commands([FakeRecord(0, b"no command")], seen)
    reader = Outputs(settings, database)
    assert reader.actual().not_alerts == 1
    assert not reader.has_unread_records()
    Consumer.written = 3
    assert reader.has_unread_records()
