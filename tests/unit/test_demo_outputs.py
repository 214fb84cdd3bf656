"""In which order the outputs are read while jobs and alerting go on."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from alerting.store import Counts
from demo import outputs
from demo.outputs import Outputs
from events.settings import Settings
from events.topics import ALERTS

FIRST, SECOND = ({"alert_id": str(number)} for number in (1, 2))


def test_alerts_that_alerting_has_logged_are_in_the_topic_as_it_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()
    alerts = TopicPartition(settings.topic(ALERTS), 0)
    logged = [FIRST]

    class Consumer:
        """The topic of alerts; while its record is read, alerting logs one more."""

        read = 0

        def __init__(self, **_: Any) -> None: ...

        def assign(self, parts: list[TopicPartition]) -> None: ...

        def assignment(self) -> set[TopicPartition]:
            return {alerts}

        def end_offsets(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(parts, 1)

        def position(self, _: TopicPartition) -> int:
            return self.read

        def poll(self, **_: Any) -> dict[TopicPartition, list[Any]]:
            self.read = 1
            logged.append(SECOND)
            value = json.dumps(FIRST).encode()
            return {alerts: [SimpleNamespace(timestamp=5, partition=0, offset=0, value=value)]}

    monkeypatch.setattr(outputs, "KafkaConsumer", Consumer)
    monkeypatch.setattr(outputs, "read_counts", lambda _: Counts())
    monkeypatch.setattr(outputs, "read_alerts", lambda _: [json.dumps(row) for row in logged])
    reader = Outputs(settings, tmp_path / "database")
    assert reader.actual().alert_topic == []
    actual = reader.actual(up_to_date=True)
    assert (actual.alerts, actual.alert_topic) == ([FIRST], [(FIRST, 5)])
