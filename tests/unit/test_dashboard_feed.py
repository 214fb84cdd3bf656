"""The dashboard's feed without a broker: what happens when one of its threads cannot go on."""

import asyncio
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import LatestSpec, OffsetSpec

from dashboard.feed import Feed
from dashboard.hub import Hub
from dashboard.run_command import listen, serve
from dashboard.state import State
from events.cli import UserFacingError
from events.records import encode
from events.settings import Settings
from events.times import now_ms
from events.topics import ALERTS, INCIDENTS, RACK_READINGS
from tests.builders import T0, reading


class FakeAdmin:
    """Answers for topics of two partitions; those without a leader have no offsets."""

    def __init__(self) -> None:
        self.is_down = False
        self.ends: dict[tuple[str, int], int | None] = {
            (topic.name, number): 100 for topic in (RACK_READINGS, ALERTS) for number in (0, 1)
        }

    def list_topics(self, **_: object) -> SimpleNamespace:
        """Return the topics' metadata."""
        if self.is_down:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        names = {name for name, _ in self.ends}
        topic = SimpleNamespace(error=None, partitions={0: None, 1: None})
        return SimpleNamespace(topics=dict.fromkeys(names, topic))

    def list_offsets(
        self, offset_specs: dict[TopicPartition, OffsetSpec], **_: object
    ) -> dict[TopicPartition, Future[SimpleNamespace]]:
        """Return the end, or 0 as the begin, of each partition."""
        answers = {}
        for partition, spec in offset_specs.items():
            end = self.ends[partition.topic, partition.partition]
            answers[partition] = future = Future[SimpleNamespace]()
            if end is None:
                error = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
                future.set_exception(KafkaException(error))
            else:
                is_end = isinstance(spec, LatestSpec)
                future.set_result(SimpleNamespace(offset=end if is_end else 0))
        return answers


def test_the_feed_consumes_the_topics_that_the_state_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(State, "topics", {ALERTS.name})
    settings = Settings(_env_file=None, topic_prefix="")
    feed = Feed(settings, Hub(State("broker:9092", [], T0)), lambda: None)
    feed.look_at_topics(cast(AdminClient, FakeAdmin()))
    assert {partition.topic for partition in feed._new_partitions.get()} == {ALERTS.name}


def test_a_partition_without_a_leader_keeps_its_last_end() -> None:
    state = State("broker:9092", [], T0)
    feed = Feed(Settings(_env_file=None, topic_prefix=""), Hub(state), lambda: None)
    admin = FakeAdmin()

    def look() -> tuple[bool, object]:
        feed.look_at_topics(cast(AdminClient, admin))
        return state.is_broker_reachable, state.update_since(0, T0).counts

    assert look() == (True, {RACK_READINGS.name: 200, ALERTS.name: 200})
    admin.ends[RACK_READINGS.name, 0] = None
    admin.ends[RACK_READINGS.name, 1] = 150
    assert look() == (True, {RACK_READINGS.name: 250, ALERTS.name: 200})
    admin.ends |= {(INCIDENTS.name, 0): 7, (INCIDENTS.name, 1): None}  # never seen before
    assert look() == (True, {RACK_READINGS.name: 250, ALERTS.name: 200})
    assert INCIDENTS.name not in (state.update_since(0, T0).topics_missing or ())
    admin.ends[INCIDENTS.name, 1] = 3
    admin.ends[RACK_READINGS.name, 0] = 120
    assert look() == (True, {RACK_READINGS.name: 270, ALERTS.name: 200, INCIDENTS.name: 10})
    admin.is_down = True
    assert look()[0] is False


def test_incidents_are_read_from_the_start_and_the_end_of_other_outputs() -> None:
    feed = Feed(
        Settings(_env_file=None, topic_prefix=""), Hub(State("broker:9092", [], T0)), lambda: None
    )
    admin = FakeAdmin()
    admin.ends = {(topic.name, 0): 450_000 for topic in (ALERTS, INCIDENTS, RACK_READINGS)}
    admin.ends |= {(topic, 1): None for topic, _ in admin.ends}
    feed.look_at_topics(cast(AdminClient, admin))
    starts = {each.topic: each.offset for each in feed._new_partitions.get_nowait()}
    # An incident that nobody has changed for long is the first record of a compacted topic.
    assert starts == {ALERTS.name: 250_000, INCIDENTS.name: 0, RACK_READINGS.name: 448_000}


def test_readings_without_a_key_do_not_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State("broker:9092", [], T0)
    feed = Feed(Settings(_env_file=None, topic_prefix=""), Hub(state), lambda: None)

    def message(number: int) -> SimpleNamespace:
        return SimpleNamespace(
            topic=lambda: RACK_READINGS.name,
            partition=lambda: 0,
            offset=lambda: number,
            key=lambda: None,
            value=lambda: encode(reading(rack=f"rack-{number}")),
            error=lambda: None,
            timestamp=lambda: (1, T0),
        )

    class FakeConsumer:
        def __init__(self, _: object) -> None:
            """Do nothing."""

        def consume(self, *_: object, **__: object) -> list[SimpleNamespace]:
            feed._end.set()
            return [message(1), message(2)]

        def close(self) -> None:
            """Do nothing."""

    monkeypatch.setattr("dashboard.feed.Consumer", FakeConsumer)
    feed._consume()
    assert {rack.rack_id for rack in state.update_since(0, T0).racks or ()} == {"rack-1", "rack-2"}


def test_the_page_follows_when_the_wall_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State("broker:9092", [], T0)
    feed = Feed(Settings(_env_file=None, topic_prefix=""), Hub(state), lambda: None)
    readings = [encode(reading(number, 20.0 + number)) for number in range(3)]
    wall_ms = iter(range(T0, 0, -3_600_000))
    clock_ns = iter(range(0, 10**12, 2 * 10**9))

    class FakeConsumer:
        def __init__(self, _: object) -> None:
            self.waiting = [
                SimpleNamespace(
                    topic=lambda: RACK_READINGS.name,
                    key=lambda: b"rack",
                    value=lambda value=value: value,
                    error=lambda: None,
                    timestamp=lambda: (1, T0),
                )
                for value in readings
            ]

        def consume(self, *_: object, **__: object) -> list[SimpleNamespace]:
            if len(self.waiting) == 1:
                feed._end.set()
            return [self.waiting.pop(0)]

        def close(self) -> None:
            """Do nothing."""

    monkeypatch.setattr("dashboard.feed.Consumer", FakeConsumer)
    monkeypatch.setattr("dashboard.feed.now_ms", lambda: next(wall_ms))
    monkeypatch.setattr("dashboard.feed.time.monotonic_ns", lambda: next(clock_ns))
    feed._consume()
    racks = state.update_since(0, T0).racks
    assert racks
    assert [rack.temperature_c for rack in racks] == [22.0]


@pytest.mark.parametrize("thread", ["_consume", "_watch"])
def test_the_dashboard_ends_when_a_thread_that_feeds_it_fails(
    thread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Feed) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(Feed, thread, fail)
    settings = Settings(
        _env_file=None, kafka_bootstrap_servers="127.0.0.1:1", rackstream_home=tmp_path
    )
    hub = Hub(State("127.0.0.1:1", [], now_ms()))
    with listen("127.0.0.1", 0) as listener:
        running = asyncio.wait_for(serve(settings, hub, listener, ()), 20)
        with pytest.raises(UserFacingError, match=r"no memory.+start it again"):
            asyncio.run(running)
