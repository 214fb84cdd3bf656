"""A broker for the lessons that need one: started at its first use on a free port, stopped after the last lesson."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from broker import server
from broker.topics import admin_client
from events.topics import TOPIC_CONFIG


class LazyBroker:
    """A real broker that starts when it is asked for its address."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._running: server.RunningBroker | None = None
        self._read: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        """The broker's address, for `kafka.bootstrap.servers`."""
        if self._running is None:
            self._running = server.start(server.free_port(), self._data_dir)
        return self._running.bootstrap

    def topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic and return its name."""
        with admin_client(self.bootstrap) as admin:
            admin.create_topics(
                {name: {"num_partitions": partitions, "replication_factor": 1, "configs": TOPIC_CONFIG}}
            )
        return name

    def send(self, topic: str, records: Iterable[dict[str, object] | tuple[str, str] | str]) -> None:
        """Append records in order: objects as JSON, texts as they are, or (key, value)."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "partitioner": "murmur2_random"}
        )
        for record in records:
            key, value = record if isinstance(record, tuple) else (None, record)
            producer.produce(topic, key=key, value=json.dumps(value) if isinstance(value, dict) else value)
        if producer.flush(30):
            raise AssertionError(f"not all records for {topic} reached the broker")

    def read(self, topic: str) -> list[str]:
        """Return the values that a topic holds now, in the order of (partition, offset)."""
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)
        try:
            parts = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            ends = consumer.end_offsets(parts)
            found = []
            while any(consumer.position(part) < ends[part] for part in parts):
                for records in consumer.poll(timeout_ms=200).values():
                    found.extend(records)
        finally:
            consumer.close()
        return [r.value.decode() for r in sorted(found, key=lambda r: (r.partition, r.offset))]

    def new(self, topic: str) -> list[str]:
        """Return the values that came since this was asked last, sorted."""
        values = self.read(topic)
        before, self._read[topic] = self._read.get(topic, 0), len(values)
        return sorted(values[before:])

    def stop(self) -> None:
        """Stop the broker if it was started."""
        if self._running is not None:
            self._running.stop()


@contextmanager
def broker_when_needed(data_dir: Path) -> Iterator[LazyBroker]:
    """Yield a broker that starts at its first use, and stop it in the end."""
    broker = LazyBroker(data_dir)
    try:
        yield broker
    finally:
        broker.stop()
