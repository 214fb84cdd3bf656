"""When people are notified while the broker fails at the start, with a reader of the tests."""

from pathlib import Path

import pytest
from kafka.errors import KafkaError

from alerting import consumer
from alerting.consumer import Batch, StopRequest
from alerting.store import Store
from tests.alerting import FakeRecord
from tests.builders import alert_value


class FailingReader:
    """Reads a backlog of one alert; the first check after reading it fails."""

    def __init__(self) -> None:
        self.refreshes = 0

    def close(self) -> None:
        """Do nothing."""

    reset = close

    def refresh_if_due(self) -> bool:
        """Fail right after the first batch."""
        self.refreshes += 1
        if self.refreshes == 2:
            raise KafkaError("the broker has just gone")
        return False

    def poll(self) -> Batch:
        """Return the alert: as it was not ingested, it is read again."""
        return {"alerts": [FakeRecord(0, alert_value(1))]}

    def has_read_backlog(self) -> bool:
        """Return that the alert was the last."""
        return True


def test_nobody_is_notified_before_the_last_batch_of_the_backlog_is_ingested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "TopicReader", lambda *_: FailingReader())
    monkeypatch.setattr(consumer, "RETRY_SECONDS", 0.0)
    stop, ingested = StopRequest(), []

    with Store(tmp_path / "db") as store:

        def on_cycle() -> None:
            ingested.append(store.counts().alerts)
            stop.requested = True

        consumer.run("nowhere:1", {"alerts": "alerts"}, store, stop=stop, on_cycle=on_cycle)
    assert ingested == [1]
