"""How do records reach the topic, and how many of them did? librdkafka sends and counts them.

`acks=all` and idempotence keep each once and in order, and its `murmur2_random`
partitions as Java does. Only a run that wants to know where each record lies asks for a delivery report of
each.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from events.cli import PersonError

BUFFERED_RECORDS = 400_000
"""How many records may wait in the client: about a second at the highest rate."""
BUFFERED_KIB = 512 * 1024
BATCH_BYTES = 250_000
"""Batches of this size cost the broker least; larger ones only wait longer (docs: what did not help)."""
CONNECT_S = 8.0
DELIVERY_TIMEOUT_MS = 120_000
"""How long a record is tried again before it counts as failed, as in Java's client."""

OnAcknowledged = Callable[[int, int, int, int, int], None]
"""Called with a reading's number and marks, and its record's partition, offset and append time (epoch ms)."""


class Publisher:
    """Sends records to one topic, and counts what was acknowledged and what failed."""

    def __init__(
        self, servers: str, topic: str, linger_ms: float, on_acknowledged: OnAcknowledged | None = None
    ) -> None:
        self._topic = topic
        self._on_acknowledged = on_acknowledged
        self._servers = servers
        self.sent = 0
        self.failed = 0
        self.last_error = ""
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "rackstream-producer",
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": linger_ms,
                "batch.size": BATCH_BYTES,
                "queue.buffering.max.messages": BUFFERED_RECORDS,
                "queue.buffering.max.kbytes": BUFFERED_KIB,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "delivery.report.only.error": on_acknowledged is None,
                "on_delivery": self._reported,
                "error_cb": self._trouble,
                "log_level": 0,
                "allow.auto.create.topics": False,
            }
        )

    @property
    def wants_reports(self) -> bool:
        """Whether somebody asked where each record lies."""
        return self._on_acknowledged is not None

    @property
    def acknowledged(self) -> int:
        """How many records the broker has; exact once nothing is waiting."""
        return self.sent - self.failed - len(self._producer)

    def check(self) -> None:
        """Raise `PersonError` when there is no broker or no such topic."""
        try:
            found = self._producer.list_topics(self._topic, timeout=CONNECT_S).topics[self._topic]
        except KafkaException:
            raise PersonError(
                f"no Kafka broker answers at {self._servers}: start one with python -m broker up, "
                "or set KAFKA_BOOTSTRAP_SERVERS."
            ) from None
        if found.error is not None:
            raise PersonError(
                f"the broker at {self._servers} has no topic {self._topic}: "
                "make it with python -m broker topics, or set TOPIC_PREFIX."
            )

    def send(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        numbers: Sequence[int] = (),
        marks: Sequence[int] = (),
    ) -> None:
        """Hand records to the client, waiting while its buffer is full; never loses one unseen."""
        self._wait_for_room(len(values))
        if self._on_acknowledged is None:
            self._send_together(
                [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
            )
        else:
            for key, value, number, mark in zip(keys, values, numbers, marks, strict=True):
                self._producer.produce(
                    self._topic, value, key, on_delivery=partial(self._delivered, number, mark)
                )
        self.sent += len(values)
        self._producer.poll(0)

    def send_uncounted(self, key: bytes, value: bytes) -> None:
        """Hand over a record that is in no count but, if it should fail, that of failures."""
        self._producer.produce(self._topic, value, key)

    def poll(self) -> None:
        """Take note of what the broker has answered."""
        self._producer.poll(0)

    def flush(self, progress: Callable[[], None], stopped: Callable[[], bool]) -> None:
        """Wait until each record is acknowledged or has failed, or until `stopped`."""
        while self._producer.flush(0.2) and not stopped():
            progress()
        left = len(self._producer)
        if left:
            self._producer.purge()
            self._producer.flush(1)

    def _wait_for_room(self, records: int) -> None:
        while len(self._producer) and len(self._producer) + records > BUFFERED_RECORDS:
            self._producer.poll(0.005)

    def _send_together(self, messages: list[dict[str, Any]]) -> None:
        while self._producer.produce_batch(self._topic, messages) < len(messages):
            messages = [message for message in messages if "_error" in message]
            full = [m for m in messages if m["_error"].code() == KafkaError._QUEUE_FULL]
            for message in messages:
                if message["_error"].code() != KafkaError._QUEUE_FULL:
                    self._fail(message["_error"])
            messages = [{"key": m["key"], "value": m["value"]} for m in full]
            if not messages:
                return
            self._producer.poll(0.005)

    def _delivered(self, number: int, mark: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error)
        elif self._on_acknowledged is not None:
            partition, offset = message.partition() or 0, message.offset() or 0
            self._on_acknowledged(number, mark, partition, offset, message.timestamp()[1])

    def _reported(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.failed += 1
        self.last_error = error.str()

    def _trouble(self, error: KafkaError) -> None:
        self.last_error = error.str()
