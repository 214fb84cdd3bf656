"""How do records reach their topics, and how many of them did? librdkafka sends and counts them.

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
FULL_S = 0.005
"""How long to wait for room in the buffer before looking again."""
CONNECT_S = 5.0
DELIVERY_TIMEOUT_MS = 120_000
"""How long a record is tried again before it counts as failed, as in Java's client."""

OnAcknowledged = Callable[[int, int, int, int, int], None]
"""Called with an event's number and marks, and its record's partition, offset and append time (epoch ms)."""


class Publisher:
    """Sends records to topics, and counts what was acknowledged and what failed.

    `wants_reports` says whether somebody will ask where each record lies.
    """

    def __init__(self, servers: str, linger_ms: float, *, wants_reports: bool = False) -> None:
        self._servers = servers
        self.wants_reports = wants_reports
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
                "delivery.report.only.error": not wants_reports,
                "on_delivery": self._reported,
                "error_cb": self._trouble,
                "log_level": 0,
                "allow.auto.create.topics": False,
            }
        )

    @property
    def acknowledged(self) -> int:
        """How many records the broker has; exact once nothing is waiting."""
        return self.sent - self.failed - self.waiting

    @property
    def waiting(self) -> int:
        """How many records have no answer yet."""
        return len(self._producer)

    def check(self, topic: str) -> None:
        """Raise `PersonError` when there is no broker or no such topic."""
        try:
            found = self._producer.list_topics(topic, timeout=CONNECT_S).topics[topic]
        except KafkaException:
            raise PersonError(
                f"no Kafka broker answers at {self._servers}: start one with python -m broker up, "
                "or set KAFKA_BOOTSTRAP_SERVERS."
            ) from None
        if found.error is not None:
            raise PersonError(
                f"the broker at {self._servers} has no topic {topic}: "
                "make it with python -m broker topics, or set TOPIC_PREFIX."
            )

    def send(
        self,
        topic: str,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        numbers: Sequence[int] = (),
        marks: Sequence[int] = (),
        *,
        on_acknowledged: OnAcknowledged | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Hand records to the client, waiting while its buffer is full; False: `stopped`, and none sent.

        `on_acknowledged` wants a number and marks for each.
        """
        while len(self._producer) and len(self._producer) + len(values) > BUFFERED_RECORDS:
            if stopped():
                return False
            self._producer.poll(FULL_S)
        if on_acknowledged is not None:
            for key, value, number, mark in zip(keys, values, numbers, marks, strict=True):
                self._send_one(topic, key, value, partial(self._delivered, on_acknowledged, number, mark))
        else:
            self._send_together(
                topic, [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
            )
        self.sent += len(values)
        self._producer.poll(0)
        return True

    def send_uncounted(
        self, topic: str, key: bytes, value: bytes, on_appended: Callable[[int], None] = lambda _: None
    ) -> None:
        """Hand over a record that is in no count but, if it should fail, that of failures.

        `on_appended` is called with its append time (epoch ms), if somebody wants reports.
        """

        def report(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._fail(error)
            else:
                on_appended(message.timestamp()[1])

        self._send_one(topic, key, value, report)

    def poll(self) -> None:
        """Take note of what the broker has answered."""
        self._producer.poll(0)

    def flush(self, progress: Callable[[], None], stopped: Callable[[], bool]) -> None:
        """Wait until each record is acknowledged or has failed; what is left when `stopped` has failed."""
        while self._producer.flush(0.2):
            progress()
            if stopped():
                self._producer.purge()

    def _send_one(
        self, topic: str, key: bytes, value: bytes, report: Callable[[KafkaError | None, Message], None]
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=report)
            except BufferError:
                self._producer.poll(FULL_S)
            except KafkaException as error:
                self._fail(error.args[0])
                return
            else:
                return

    def _send_together(self, topic: str, messages: list[dict[str, Any]]) -> None:
        # Large records fill the buffer's bytes before its count: those are tried again. Others have failed.
        while messages and self._producer.produce_batch(topic, messages) < len(messages):
            refused = [(message, message.pop("_error")) for message in messages if "_error" in message]
            messages = []
            for message, error in refused:
                if error.code() == KafkaError._QUEUE_FULL:
                    messages.append(message)
                else:
                    self._fail(error)
            self._producer.poll(FULL_S)

    def _delivered(
        self,
        on_acknowledged: OnAcknowledged,
        number: int,
        mark: int,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        if error is not None:
            self._fail(error)
        else:
            partition, offset = message.partition() or 0, message.offset() or 0
            on_acknowledged(number, mark, partition, offset, message.timestamp()[1])

    def _reported(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.failed += 1
        self.last_error = error.str()

    def _trouble(self, error: KafkaError) -> None:
        self.last_error = error.str()
