"""Publish records with librdkafka and count them.

`acks=all` and idempotence keep each record exactly once and in order, and the partitioner
`murmur2_random` does as Java's client. Only a run that needs each record's position asks for a
delivery report of each.

One request at a time is under way to a broker. A broker that has just started may refuse a
producer's first batch and then accept its second, since it takes any sequence number from a
producer that it does not know. It would take the first batch, sent again, for a duplicate, and lose
it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from events.cli import UserFacingError

MAX_BUFFERED_RECORDS = 400_000
"""How many records may wait in the client: about a second at the highest rate."""
MAX_BUFFERED_KIB = 512 * 1024
BATCH_BYTES = 250_000
"""Batches of this size cost the broker least; larger ones only wait longer (`docs/tuning.md`)."""
BUFFER_WAIT_S = 0.005
"""How long to wait for room in the buffer before the next attempt."""
CONNECT_S = 5.0
DELIVERY_TIMEOUT_MS = 120_000
"""How long a record is retried before it counts as failed, as in Java's client."""

OnAcknowledged = Callable[[int, int, int, int, int], None]
"""Called with an event's number and flags, and its record's partition, offset, append time (ms)."""


class Publisher:
    """Sends records to topics, and counts what was acknowledged and what failed.

    `delivery_reports` requests a report per record, which `send` and `send_uncounted` pass on.
    """

    def __init__(self, servers: str, linger_ms: float, *, delivery_reports: bool = False) -> None:
        self._servers = servers
        self.delivery_reports = delivery_reports
        self.sent = 0
        self.failed = 0
        self._sent_before_flush = 0
        self._failure = ""
        self._connection_error, self._answered_before_error = "", 0
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "client.id": "rackstream-producer",
                "acks": "all",
                "enable.idempotence": True,
                "max.in.flight.requests.per.connection": 1,
                "partitioner": "murmur2_random",
                "linger.ms": linger_ms,
                "batch.size": BATCH_BYTES,
                "queue.buffering.max.messages": MAX_BUFFERED_RECORDS,
                "queue.buffering.max.kbytes": MAX_BUFFERED_KIB,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "delivery.report.only.error": not delivery_reports,
                "on_delivery": self._on_delivery_error,
                "error_cb": self._on_client_error,
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
        """How many records have no answer yet, and how many errors have not been processed.

        0 after `flush` until the next record is sent, though the connection may fail meanwhile.
        """
        return 0 if self.sent == self._sent_before_flush else len(self._producer)

    @property
    def last_error(self) -> str:
        """The connection's last error until the broker answers again, or that of a failed record.

        Empty if there is none.
        """
        answered_since = self._answered > self._answered_before_error
        return self._failure if answered_since else self._connection_error or self._failure

    @property
    def _answered(self) -> int:
        return self.sent - self.waiting

    def check_topic(self, topic: str) -> None:
        """Raise `UserFacingError` if there is no broker or no such topic."""
        try:
            found = self._producer.list_topics(topic, timeout=CONNECT_S).topics[topic]
        except KafkaException:
            raise UserFacingError(
                f"no Kafka broker answers at {self._servers}: start one with python -m broker up, "
                "or set KAFKA_BOOTSTRAP_SERVERS."
            ) from None
        if found.error is not None:
            raise UserFacingError(
                f"the broker at {self._servers} has no topic {topic}: "
                "create it with python -m broker topics, or set TOPIC_PREFIX."
            )

    def send(
        self,
        topic: str,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        numbers: Sequence[int] = (),
        flags: Sequence[int] = (),
        *,
        on_acknowledged: OnAcknowledged | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Hand records to the client, waiting while its buffer is full; return False if `stopped`.

        If stopped, no record is sent. `on_acknowledged` needs a number and flags for each.
        """
        while len(self._producer) and len(self._producer) + len(values) > MAX_BUFFERED_RECORDS:
            if stopped():
                return False
            self._producer.poll(BUFFER_WAIT_S)
        if on_acknowledged is not None:
            for key, value, number, record_flags in zip(keys, values, numbers, flags, strict=True):
                self._send_one(
                    topic,
                    key,
                    value,
                    partial(self._delivered, on_acknowledged, number, record_flags),
                )
        else:
            self._send_together(
                topic,
                [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)],
            )
        self.sent += len(values)
        self._producer.poll(0)
        return True

    def send_uncounted(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        on_appended: Callable[[int, int, int], None] = lambda *_: None,
    ) -> None:
        """Hand over a record that only the count of failures may include.

        `on_appended` is called with its partition, offset and append time (epoch ms) if delivery
        reports are requested.
        """

        def report(error: KafkaError | None, message: Message) -> None:
            if position := self._position(error, message):
                on_appended(*position)

        self._send_one(topic, key, value, report)

    def poll(self) -> None:
        """Process what the broker has answered."""
        self._producer.poll(0)

    def flush(self, progress: Callable[[], None], stopped: Callable[[], bool]) -> None:
        """Wait until no record is unanswered; if `stopped`, the remaining ones have failed."""
        while self._producer.flush(0.2):
            progress()
            if stopped():
                self._producer.purge()
        self._sent_before_flush = self.sent

    def _send_one(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        report: Callable[[KafkaError | None, Message], None],
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=report)
            except BufferError:
                self._producer.poll(BUFFER_WAIT_S)
            except KafkaException as error:
                self._fail(error.args[0])
                return
            else:
                return

    def _send_together(self, topic: str, messages: list[dict[str, Any]]) -> None:
        # Large records can fill the buffer's bytes before its count: retry those. Others failed.
        while messages and self._producer.produce_batch(topic, messages) < len(messages):
            refused = [
                (message, message.pop("_error")) for message in messages if "_error" in message
            ]
            messages = []
            for message, error in refused:
                if error.code() == KafkaError._QUEUE_FULL:
                    messages.append(message)
                else:
                    self._fail(error)
            self._producer.poll(BUFFER_WAIT_S)

    def _delivered(
        self,
        on_acknowledged: OnAcknowledged,
        number: int,
        flags: int,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        if position := self._position(error, message):
            on_acknowledged(number, flags, *position)

    def _position(self, error: KafkaError | None, message: Message) -> tuple[int, int, int] | None:
        """Return a record's partition, offset and append time (ms), or count it as failed.

        The broker says no offset of a duplicate of what it stored long ago: it may hold the record.
        """
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            return partition, offset, message.timestamp()[1]
        self._fail(error or KafkaError(KafkaError.DUPLICATE_SEQUENCE_NUMBER))
        return None

    def _on_delivery_error(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        self.failed += 1
        self._failure = error.str()

    def _on_client_error(self, error: KafkaError) -> None:
        self._connection_error, self._answered_before_error = error.str(), self._answered
