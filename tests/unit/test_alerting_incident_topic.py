"""The records of the topic `incidents`: what is published after each change, and what is not."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alerting.incidents import topic_outbox
from alerting.incidents.incident_view import MAX_TEXT
from alerting.incidents.state import NotificationTiming
from events.records import Incident, encode
from events.times import to_text
from tests.alerting import HOUR, MINUTE, SECOND, T0, AlertingSimulation
from tests.builders import new_alert

RACK_1, RACK_2 = b"rack-overheating|rack-1", b"rack-overheating|rack-2"


class Topic:
    """A simulated alerting process and the topic that it publishes to."""

    def __init__(self, sim: AlertingSimulation) -> None:
        self.sim = sim
        self.records: dict[bytes, bytes] = {}

    def publish(self) -> list[bytes]:
        """Publish what has changed; return the keys of the changed records."""
        before = dict(self.records)
        self.sim.publish(self.records)
        assert self.records == self.sim.expected_topic()
        return sorted(
            key
            for key in before.keys() | self.records.keys()
            if before.get(key) != self.records.get(key)
        )

    def record(self, key: bytes = RACK_1) -> Incident:
        """Return the incident that the topic has for a key."""
        return msgspec.json.decode(self.records[key], type=Incident)


@pytest.fixture
def sim(tmp_path: Path) -> Iterator[AlertingSimulation]:
    """Return a simulated alerting process."""
    with closing(
        AlertingSimulation(tmp_path / "db", NotificationTiming(flap_changes=4))
    ) as simulation:
        yield simulation


@pytest.fixture
def topic(sim: AlertingSimulation) -> Topic:
    """Return the topic of that process."""
    return Topic(sim)


def test_an_incident_is_published_when_it_opens_changes_and_is_resolved(
    sim: AlertingSimulation, topic: Topic
) -> None:
    opened = sim.alert()
    assert topic.publish() == [RACK_1]
    assert topic.record() == Incident(
        alert_id=opened.alert_id,
        status="firing",
        severity="error",
        rule="rack-overheating",
        subject="rack-1",
        site_id=opened.site_id,
        start_time=opened.event_time,
        end_time=None,
        repeats=0,
        acknowledged_by=None,
        silenced_until=None,
        inhibited=False,
        flapping=False,
        summary=opened.summary,
        last_alert_id=opened.alert_id,
    )
    raised = sim.alert(severity="critical", summary="It burns.")
    assert topic.publish() == [RACK_1]
    record = topic.record()
    assert (record.alert_id, record.last_alert_id) == (opened.alert_id, raised.alert_id)
    assert (record.severity, record.summary) == ("critical", "It burns.")
    ended = sim.alert(state="NORMAL")
    topic.publish()
    assert (topic.record().status, topic.record().end_time) == ("resolved", ended.event_time)
    assert topic.record().last_alert_id == ended.alert_id


def test_nothing_is_published_twice(sim: AlertingSimulation, topic: Topic) -> None:
    sim.alert()
    assert sim.publish(topic.records) == 1
    sim.restart()
    assert sim.publish(topic.records) == 0


def test_a_resolved_incident_stays_for_a_day(sim: AlertingSimulation, topic: Topic) -> None:
    sim.alert()
    sim.alert(state="NORMAL")
    topic.publish()
    sim.now_ms += 24 * HOUR - 1
    assert topic.publish() == []
    sim.restart()
    sim.now_ms += 1
    assert topic.publish() == [RACK_1]
    assert topic.records == {}
    sim.alert()
    assert topic.publish() == [RACK_1]


def test_an_incident_that_was_resolved_long_ago_is_never_published(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert()
    sim.alert(state="NORMAL")
    sim.now_ms += 25 * HOUR
    assert topic.publish() == []


def test_a_repeat_is_counted(sim: AlertingSimulation, topic: Topic) -> None:
    alert = sim.alert()
    topic.publish()
    sim.send(encode(alert))
    assert topic.publish() == [RACK_1]
    assert topic.record().repeats == 1


def test_an_acknowledgement_is_published(sim: AlertingSimulation, topic: Topic) -> None:
    sim.ack(sim.alert(), by="ada")
    topic.publish()
    assert (topic.record().status, topic.record().acknowledged_by) == ("acknowledged", "ada")


def test_a_silence_is_published_when_it_begins_and_when_it_ends(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert()
    topic.publish()
    sim.silence(HOUR)
    assert topic.publish() == [RACK_1]
    until = to_text(sim.now_ms + HOUR)
    assert (topic.record().status, topic.record().silenced_until) == ("silenced", until)
    sim.now_ms += HOUR - 1
    assert topic.publish() == []
    sim.restart()
    sim.now_ms += 1
    assert topic.publish() == [RACK_1]
    assert (topic.record().status, topic.record().silenced_until) == ("firing", None)


def test_the_silence_of_a_site_concerns_its_racks_and_no_others(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert("rack-1", site_id="site-1")
    sim.alert("rack-2", site_id="site-2")
    topic.publish()
    sim.silence(HOUR, "site-1")
    assert topic.publish() == [RACK_1]
    sim.command("unsilence", "site-1")
    assert topic.publish() == [RACK_1]
    assert topic.record().status == "firing"


def test_an_outage_of_a_site_inhibits_its_racks_until_it_ends(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert("rack-1", site_id="site-1")
    sim.alert("rack-2", site_id="site-2")
    topic.publish()
    outage = b"site-outage|site-1"
    sim.alert("site-1", rule="site-outage", site_id="site-1")
    assert topic.publish() == [RACK_1, outage]
    assert topic.record().inhibited
    sim.alert("site-1", "NORMAL", rule="site-outage", site_id="site-1")
    assert topic.publish() == [RACK_1, outage]
    assert not topic.record().inhibited


def test_flapping_is_published_with_the_notice_about_it(
    sim: AlertingSimulation, topic: Topic
) -> None:
    for state in ("WARNING", "NORMAL", "WARNING", "NORMAL", "WARNING"):
        sim.alert(state=state)
        sim.now_ms += SECOND
    topic.publish()
    assert not topic.record().flapping
    sim.wait(MINUTE)
    assert topic.publish() == [RACK_1]
    assert topic.record().flapping


def test_a_change_while_the_record_is_on_its_way_is_published_too(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert()
    with closing(sqlite3.connect(sim.path, isolation_level=None)) as db:
        on_its_way = topic_outbox.unpublished(db, sim.now_ms, 10)
        sim.alert(state="NORMAL")
        topic_outbox.record_published(db, on_its_way)
        assert len(topic_outbox.unpublished(db, sim.now_ms, 10)) == 1
    topic.publish()
    assert topic.record().status == "resolved"


def test_a_record_that_is_not_acknowledged_is_published_after_a_restart(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert()
    with closing(sqlite3.connect(sim.path)) as db:
        assert len(topic_outbox.unpublished(db, sim.now_ms, 10)) == 1
    sim.restart()
    assert topic.publish() == [RACK_1]


def test_a_change_that_is_rolled_back_is_not_published(sim: AlertingSimulation) -> None:
    with pytest.raises(ZeroDivisionError), sim.store.transaction():
        sim.ingest(encode(new_alert(1, T0, "rack-1", "WARNING", "error")))
        raise ZeroDivisionError
    assert sim.publish({}) == 0


def test_another_topic_receives_everything_and_loses_the_keys_of_another_database(
    sim: AlertingSimulation, topic: Topic
) -> None:
    sim.alert("rack-1")
    topic.publish()
    topic.records = {RACK_2: b"{}", b"rack-overheating|rack|3": b"{}"}
    present = [("rack-overheating", "rack-2"), ("rack-overheating", "rack|3")]
    with closing(sqlite3.connect(sim.path, isolation_level=None)) as db:
        assert not topic_outbox.is_topic_known(db, "id-1")
        topic_outbox.begin_topic(db, "incidents", "id-1", present)
        assert topic_outbox.is_topic_known(db, "id-1")
        assert not topic_outbox.is_topic_known(db, "id-2")
    topic.publish()
    assert list(topic.records) == [RACK_1]


def test_a_silence_of_an_unknown_subject_publishes_nothing(sim: AlertingSimulation) -> None:
    sim.silence(HOUR, "rack-9")
    assert sim.publish({}) == 0


def test_texts_are_cut_so_that_a_record_is_never_too_large(
    sim: AlertingSimulation, topic: Topic
) -> None:
    alert = sim.alert(summary="\x01" * 150_000)
    sim.ack(alert, by="\x01" * 150_000)
    topic.publish()
    assert len(topic.record().summary) == len(topic.record().acknowledged_by or "") == MAX_TEXT
    assert len(topic.records[RACK_1]) < 1_000_000


def test_an_id_may_be_any_text(sim: AlertingSimulation, topic: Topic) -> None:
    for number, alert_id in enumerate(("x\0y", "", "'", "\n", "🔥" * 64)):
        sim.alert(f"rack-{number}", alert_id=alert_id)
        assert topic.publish() == [f"rack-overheating|rack-{number}".encode()]
    assert topic.records == sim.expected_topic()
