"""What the publisher of incidents does while no broker answers."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alerting.incidents import publisher
from alerting.incidents.publisher import IncidentPublisher, IncidentTopic, read_unpublished
from broker.server import free_port
from events.times import now_ms
from tests.alerting import AlertingSimulation
from tests.support import eventually


@pytest.fixture
def sim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AlertingSimulation]:
    """Return a database with more incidents than a batch, and let sending fail soon."""
    monkeypatch.setattr(publisher, "SEND_SECONDS", 0.5)
    with closing(AlertingSimulation(tmp_path / "db", now_ms=now_ms())) as simulation:
        for number in range(publisher.BATCH_SIZE + 1):
            simulation.alert(f"rack-{number}")
        yield simulation


def test_a_record_that_the_broker_does_not_acknowledge_stays_in_the_outbox(
    sim: AlertingSimulation,
) -> None:
    topic = IncidentTopic(f"localhost:{free_port()}", "incidents")
    with closing(sqlite3.connect(sim.path, isolation_level=None)) as db:
        records = read_unpublished(db)
        assert len(records) == publisher.BATCH_SIZE
        assert topic.publish(db, records) is not None
        assert read_unpublished(db) == records


def test_an_outage_is_reported_once_and_does_not_delay_the_end(sim: AlertingSimulation) -> None:
    reports: list[str] = []
    steps: list[bool] = []
    with IncidentPublisher(
        sim.path, f"localhost:{free_port()}", "incidents", reports.append, steps.append
    ) as running:
        running.wake()
        eventually(lambda: len(steps), lambda count: count >= 2)
    assert not running._thread.is_alive()
    assert len(reports) == 1 and reports[0].startswith("Incidents could not be published (")
    assert not any(steps)


def test_nothing_is_published_before_the_backlog_has_been_read(sim: AlertingSimulation) -> None:
    steps: list[bool] = []
    with IncidentPublisher(
        sim.path, f"localhost:{free_port()}", "incidents", lambda _: None, steps.append
    ) as running:
        pass
    assert not running._thread.is_alive()
    assert steps == []
