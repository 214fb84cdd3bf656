"""Start a Kafka broker for the lessons that need one, at its first use and on a free port."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from broker import server
from broker.topics import admin_client
from events.topics import TOPIC_CONFIG


class LazyBroker:
    """A real broker that starts when its address is first needed."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._running: server.RunningBroker | None = None
        self._read_counts: dict[str, int] = {}

    @property
    def bootstrap(self) -> str:
        """The broker's address, for `kafka.bootstrap.servers`."""
        if self._running is None:
            self._running = server.start(server.free_port(), self._data_dir)
        return self._running.bootstrap

    def create_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic and return its name."""
        with admin_client(self.bootstrap) as admin:
            admin.create_topics(
                {
                    name: {
                        "num_partitions": partitions,
                        "replication_factor": 1,
                        "configs": TOPIC_CONFIG,
                    }
                }
            )
        return name

    def send(self, topic: str, records: Iterable[tuple[str, str] | str]) -> None:
        """Append records in order, each a value or a (key, value) pair."""
        for record in records:
            key, value = record if isinstance(record, tuple) else (None, record)
            self._producer.produce(topic, key=key, value=value)
        if self._producer.flush(30):
            raise AssertionError(f"not all records for {topic} reached the broker")

    def read(self, topic: str) -> list[str]:
        """Return the values that a topic holds now, ordered by (partition, offset)."""
        consumer = self._consumer
        partitions = [
            TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))
        ]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found = []
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(records)
        return [r.value.decode() for r in sorted(found, key=lambda r: (r.partition, r.offset))]

    def read_new(self, topic: str) -> list[str]:
        """Return the values appended since the last call for this topic, sorted."""
        values = self.read(topic)
        seen, self._read_counts[topic] = self._read_counts.get(topic, 0), len(values)
        return sorted(values[seen:])

    def stop(self) -> None:
        """Stop the broker and its clients, if they were started."""
        self.__dict__.pop("_producer", None)  # closed by its destructor
        if consumer := self.__dict__.pop("_consumer", None):
            consumer.close()
        if self._running is not None:
            self._running.stop()

    @cached_property
    def _producer(self) -> Producer:
        return Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "partitioner": "murmur2_random"}
        )

    @cached_property
    def _consumer(self) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False)


@contextmanager
def lazy_broker(data_dir: Path) -> Iterator[LazyBroker]:
    """Yield a broker that starts at its first use, and stop it at the end."""
    broker = LazyBroker(data_dir)
    try:
        yield broker
    finally:
        broker.stop()
