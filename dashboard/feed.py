"""Read the topics into the state: a thread that consumes, and one that asks for the topics' ends.

The consumer belongs to no group and commits nothing. Outputs are read from their start, or the last
`BACKLOG` of each partition; readings from their end. Of readings and windows, only the newest of
each key is looked at, a few times a second: in Real-time Mode each reading updates four windows.
Every record without a key is looked at.
"""

import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Event, Thread
from typing import Self

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from dashboard.drivers import read_alerting, read_drivers
from dashboard.hub import Hub
from dashboard.received import Received
from events.settings import Settings
from events.times import now_ms
from events.topics import ALL, RACK_READINGS, RACK_TEMPERATURE, SIGNAL_STATISTICS

Partition = tuple[str, int]
"""A topic's name on the broker, and a partition's number."""
BACKLOG = 200_000
"""So many of a partition's last records are read at the start, unless the topic is compacted."""
READINGS_BACKLOG = 2_000
BATCH_RECORDS = 5_000
POLL_S = 0.1
WATCH_S = 1.0
REQUEST_S = 2.0
NEWEST_COUNTS = {RACK_READINGS.name, RACK_TEMPERATURE.name, SIGNAL_STATISTICS.name}
"""Topics of which only the newest record of each key matters."""
MIN_INTERVAL_MS = 250
KEYS_PER_SECOND = 1_000
"""How many keys of such a topic change at most; with more keys, each changes less often."""
MAX_PENDING_KEYS = 10_000
"""So many keys are looked at at once, however recently others were: they take memory."""
_COMPACTED = {topic.name for topic in ALL if topic.compacted}
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
CLIENT: dict[str, str | int | float | bool] = {
    "log_level": 0,
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 3_000,
}
CONSUMER: dict[str, str | int | float | bool] = CLIENT | {
    "group.id": "dashboard",  # never joined, but the client requires one
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    # Few, larger responses: an alert waits for at most a tenth of a second.
    "fetch.min.bytes": 65_536,
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 4_096,
    "fetch.max.bytes": 4_194_304,
}


class _Newest:
    """The newest record of each key, and each record without one, that wait to be looked at."""

    def __init__(self) -> None:
        self._by_key: dict[object, Message] = {}
        self._due_ms = 0

    def add(self, message: Message) -> None:
        """Add a record; it replaces the earlier one of its key."""
        key = message.key() or (message.partition(), message.offset())
        self._by_key[key] = message

    def take_if_due(self, at_ms: int) -> list[Message]:
        """Return and forget the records, unless few wait and others were taken too recently.

        `at_ms` is of a clock that never steps back.
        """
        if at_ms < self._due_ms and len(self._by_key) < MAX_PENDING_KEYS:
            return []
        self._due_ms = at_ms + max(MIN_INTERVAL_MS, 1000 * len(self._by_key) // KEYS_PER_SECOND)
        messages = list(self._by_key.values())
        self._by_key.clear()
        return messages


class Feed:
    """Feeds a hub from the broker until the context ends.

    `on_failure` is called from a thread that cannot go on, after `failure` is set.
    """

    def __init__(self, settings: Settings, hub: Hub, on_failure: Callable[[], None]) -> None:
        self._settings, self._hub, self._on_failure = settings, hub, on_failure
        self.failure: str | None = None
        """Why a thread has ended by itself: the page would then show old data as if it were new."""
        self._names = {settings.topic(topic): topic.name for topic in ALL}
        with hub.state() as state:
            self._consumed = {topic for topic, name in self._names.items() if name in state.topics}
        self._known = set[Partition]()
        self._ends: dict[Partition, int] = {}
        self._new_partitions = queue.SimpleQueue[list[TopicPartition]]()
        self._end = Event()
        self._threads = [
            Thread(target=self._guarded, args=(target,), name=name, daemon=True)
            for name, target in (("consumer", self._consume), ("watch", self._watch))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, target: Callable[[], None]) -> None:
        try:
            target()
        except Exception as error:  # noqa: BLE001 - whatever it is, the process must end
            self.failure = repr(error)
            self._on_failure()

    def _consume(self) -> None:
        newest = {topic: _Newest() for topic, name in self._names.items() if name in NEWEST_COUNTS}
        with closing(Consumer(CONSUMER | self._servers())) as consumer:
            while not self._end.is_set():
                while not self._new_partitions.empty():
                    consumer.incremental_assign(self._new_partitions.get())
                by_topic = defaultdict[str, list[Message]](list)
                for message in consumer.consume(BATCH_RECORDS, timeout=POLL_S):
                    topic = message.topic()
                    if message.error() is not None or topic is None:
                        continue
                    if topic in newest:
                        newest[topic].add(message)
                    else:
                        by_topic[topic].append(message)
                at_ms = time.monotonic_ns() // 1_000_000  # the wall clock may step back
                for topic, waiting in newest.items():
                    if messages := waiting.take_if_due(at_ms):
                        by_topic[topic] = messages
                with self._hub.state() as state:
                    for topic, messages in by_topic.items():
                        state.apply(self._names[topic], list(map(_received, messages)))
                    state.publish_sections(at_ms)

    def _watch(self) -> None:
        """Ask once a second for the topics and their ends, and for the programs' status files."""
        admin = AdminClient(CLIENT | self._servers())
        while not self._end.wait(WATCH_S):
            self.look_at_topics(admin)
            home, prefix = self._settings.rackstream_home, self._settings.topic_prefix
            drivers, queries = read_drivers(home, prefix, now_ms())
            alerting = read_alerting(home, prefix, now_ms())
            with self._hub.state() as state:
                state.set_programs(drivers, queries, alerting)

    def look_at_topics(self, admin: AdminClient) -> None:
        """Ask for the topics and their ends, and have new partitions consumed.

        A partition whose end nobody tells, such as one without a leader, keeps its last one.
        """
        try:
            partitions = self._partitions(admin)
        except KafkaException:
            with self._hub.state() as state:
                state.set_broker(reachable=False, now_ms=now_ms())
            return
        ends = self._offsets(admin, partitions, _LATEST)
        self._ends.update(ends)
        new = [partition for partition in ends if partition not in self._known]
        begins = self._offsets(admin, new, _EARLIEST)
        new = [partition for partition in new if partition in begins]
        self._known.update(new)
        consumed = [partition for partition in new if partition[0] in self._consumed]
        if consumed:
            self._new_partitions.put(
                [
                    TopicPartition(*partition, self._start(partition[0], begins[partition], end))
                    for partition in consumed
                    for end in (ends[partition],)
                ]
            )
        uncounted = {topic for topic, number in partitions if (topic, number) not in self._ends}
        counts = Counter[str]()
        for topic, number in partitions:
            if topic not in uncounted:
                counts[self._names[topic]] += self._ends[topic, number]
        found = {self._names[topic] for topic, _ in partitions}
        missing = [topic.name for topic in ALL if topic.name not in found]
        at_ms = now_ms()
        with self._hub.state() as state:
            state.set_broker(reachable=True, now_ms=at_ms)
            state.set_topics(counts, missing, at_ms)

    def _start(self, topic: str, begin: int, end: int) -> int:
        """Return the offset from which a partition is read.

        Compaction leaves few records between distant offsets, and the oldest may be of an incident
        that is still open.
        """
        name = self._names[topic]
        if name in _COMPACTED:
            return begin
        return max(begin, end - (READINGS_BACKLOG if name == RACK_READINGS.name else BACKLOG))

    def _partitions(self, admin: AdminClient) -> list[Partition]:
        found = admin.list_topics(timeout=REQUEST_S).topics
        return [
            (name, number)
            for name in self._names
            if name in found and found[name].error is None
            for number in found[name].partitions
        ]

    def _offsets(
        self, admin: AdminClient, partitions: list[Partition], spec: OffsetSpec
    ) -> dict[Partition, int]:
        """Return the offsets of the partitions that answer."""
        if not partitions:
            return {}
        offset_specs = {TopicPartition(topic, number): spec for topic, number in partitions}
        futures = admin.list_offsets(
            offset_specs, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_S
        )
        found = {}
        for partition, future in futures.items():
            with suppress(KafkaException):
                found[partition.topic, partition.partition] = future.result().offset
        return found

    def _servers(self) -> dict[str, str | int | float | bool]:
        return {"bootstrap.servers": self._settings.kafka_bootstrap_servers}


def _received(message: Message) -> Received:
    return Received(message.key(), message.value(), message.timestamp()[1])
