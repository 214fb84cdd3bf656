"""What alerting does while the broker or a topic is away, with a reader of the tests."""

from pathlib import Path

import pytest
from kafka.errors import KafkaError

from alerting import consumer
from alerting.consumer import Batch, MissingTopicError, StopRequest
from alerting.status import StatusRecorder
from alerting.store import Store
from events.cli import UserFacingError
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


class EmptyReader:
    """Reads empty topics; each check ends as the next of the given errors says, or well."""

    def __init__(self, *errors: KafkaError | None) -> None:
        self.errors = list(errors)

    def close(self) -> None:
        """Do nothing."""

    reset = close

    def refresh_if_due(self) -> bool:
        """Fail with the next error, if there is one."""
        if self.errors and (error := self.errors.pop(0)):
            raise error
        return True

    def poll(self) -> Batch:
        """Return no records."""
        return {}

    def has_read_backlog(self) -> bool:
        """Return that nothing is left."""
        return True

    at_end = has_read_backlog


def test_a_deleted_topic_is_reported_as_such_and_not_as_an_outage_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, down = MissingTopicError("alerts"), KafkaError("no route")
    reader = EmptyReader(None, gone, gone, down, gone, None)
    monkeypatch.setattr(consumer, "TopicReader", lambda *_: reader)
    monkeypatch.setattr(consumer, "RETRY_SECONDS", 0.0)
    recorder = StatusRecorder("broker:9092", "", tmp_path / "db")
    stop, reports, statuses = StopRequest(), list[str](), list[tuple[bool, str | None]]()

    def report(message: str) -> None:
        reports.append(message)
        status = recorder.snapshot()
        statuses.append((status.broker.reachable, status.missing_topic))
        stop.requested = not reader.errors

    with Store(tmp_path / "db") as store:
        consumer.run(
            "broker:9092",
            {"alerts": "alerts"},
            store,
            stop=stop,
            report=report,
            status=recorder,
        )
    missing = (
        "The topic alerts no longer exists on broker:9092: create the topics with "
        "`python -m broker topics`, then start alerting with a new database; retrying."
    )
    assert reports == [
        missing,
        "The broker at broker:9092 does not answer (KafkaError: no route); retrying.",
        missing,
        "The topic alerts exists again after 0 s.",
    ]
    assert statuses == [(True, "alerts"), (False, None), (True, "alerts"), (True, None)]


@pytest.mark.parametrize(
    ("error", "problem", "advice"),
    [
        (
            KafkaError("no route"),
            "the broker at broker:9092 does not answer ",
            ": progress is saved; restart when it does.",
        ),
        (
            MissingTopicError("alerts"),
            "the topic alerts no longer exists on broker:9092: create ",
            ", then start alerting with a new database.",
        ),
    ],
)
def test_a_run_with_idle_exit_ends_with_what_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: KafkaError, problem: str, advice: str
) -> None:
    monkeypatch.setattr(consumer, "TopicReader", lambda *_: EmptyReader(error))
    with Store(tmp_path / "db") as store, pytest.raises(UserFacingError) as ended:
        consumer.run("broker:9092", {"alerts": "alerts"}, store, idle_exit_s=0.0)
    assert str(ended.value).startswith(problem)
    assert str(ended.value).endswith(advice)
