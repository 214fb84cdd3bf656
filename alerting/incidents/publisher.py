"""Publish incidents to the topic `incidents`, on a thread of its own.

A record is marked as published when the broker has acknowledged it, never before. A crash in
between publishes it again, which changes nothing: the last record per key counts.
"""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from alerting.incidents import topic_outbox
from alerting.notifications.outbox import BUSY_TIMEOUT_S
from broker.topics import read_to_end
from events.catalog import RULES
from events.times import now_ms

BATCH_SIZE = 100
"""How many records are on their way at once. It bounds the memory while the broker is away."""

POLL_SECONDS = 0.5
"""How often to look for incidents that the clock changes; others are published at once."""

RETRY_SECONDS = 1.0
SEND_SECONDS = 5.0
"""How long the broker may take to acknowledge a record before it is sent again."""

SHUTDOWN_SECONDS = SEND_SECONDS + 10.0
"""How long the end waits for the broker's acknowledgement of what is left."""


class IncidentPublisher:
    """A context manager that publishes incidents while alerting runs.

    It begins with the first `wake`. What is not published when it ends stays in the outbox.
    `report` receives messages for people, `on_step` whether everything has been published.
    """

    def __init__(
        self,
        database: Path,
        bootstrap: str,
        topic: str,
        report: Callable[[str], None],
        on_step: Callable[[bool], None],
    ) -> None:
        self._database, self._report, self._on_step = database, report, on_step
        self._broker = IncidentTopic(bootstrap, topic)
        self._errors: list[BaseException] = []
        self._failing = False
        self._enabled, self._stop, self._wake = (threading.Event() for _ in range(3))
        self._recreated = threading.Event()
        self._thread = threading.Thread(target=self._run, name="incidents", daemon=True)

    def __enter__(self) -> "IncidentPublisher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(SHUTDOWN_SECONDS)

    def wake(self) -> None:
        """Publish what has changed; raise the error that ended the thread, if any."""
        if self._errors:
            raise self._errors[0]
        self._enabled.set()
        self._wake.set()

    def republish(self) -> None:
        """Publish everything: the topic was created again.

        Without a change to publish, no failure would show that the topic is another one.
        """
        self._recreated.set()

    def _run(self) -> None:
        try:
            with closing(
                sqlite3.connect(self._database, isolation_level=None, timeout=BUSY_TIMEOUT_S)
            ) as db:
                self._wake.wait()
                while self._enabled.is_set():
                    self._wake.clear()
                    is_last = self._stop.is_set()  # nothing changes any more
                    delay_s = self._step(db)
                    if delay_s and is_last:
                        break
                    self._wake.wait(delay_s)
        except BaseException as error:  # noqa: BLE001 - `wake` raises it in the main thread
            self._errors.append(error)

    def _step(self, db: sqlite3.Connection) -> float:
        """Publish some records; return the delay until the next step."""
        if self._recreated.is_set():
            self._recreated.clear()
            self._broker.forget()
        try:
            self._broker.prepare(db)
            records = read_unpublished(db)
            failure = self._broker.publish(db, records)
        except KafkaException as error:
            failure = error.args[0]
        if failure is not None:
            self._broker.forget()
            if not self._failing:
                self._report(f"Incidents could not be published ({failure.str()}); retrying.")
            self._failing = True
            self._on_step(False)
            self._stop.wait(RETRY_SECONDS)
            return RETRY_SECONDS
        if self._failing:
            self._report("Incidents are published again.")
            self._failing = False
        is_everything = len(records) < BATCH_SIZE
        self._on_step(is_everything)
        return POLL_SECONDS if is_everything else 0.0


def read_unpublished(db: sqlite3.Connection) -> list[topic_outbox.OutboxRecord]:
    """Return the next records to publish, all from one moment."""
    db.execute("BEGIN")
    try:
        return topic_outbox.unpublished(db, now_ms(), BATCH_SIZE)
    finally:
        db.execute("ROLLBACK")


class IncidentTopic:
    """The topic `incidents` on the broker."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._is_prepared = False
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",  # Java's, so a key's records share a partition
                "acks": "all",
                # One request at a time keeps the order per key, also through retries.
                "max.in.flight.requests.per.connection": 1,
                "message.timeout.ms": int(SEND_SECONDS * 1000),
                "log_level": 0,
            }
        )

    def prepare(self, db: sqlite3.Connection) -> None:
        """Adopt the topic when it is not the one that the database knows.

        Raise `KafkaException` if the broker does not answer.
        """
        if self._is_prepared:
            return
        topic_id = self._topic_id()
        if not topic_outbox.is_topic_known(db, topic_id):
            present = self._read_keys()
            db.execute("BEGIN IMMEDIATE")
            topic_outbox.begin_topic(db, self._topic, topic_id, present)
            db.execute("COMMIT")
        self._is_prepared = True

    def publish(
        self, db: sqlite3.Connection, records: Sequence[topic_outbox.OutboxRecord]
    ) -> KafkaError | None:
        """Send records and mark those that the broker acknowledges; return an error, if any."""
        acknowledged: list[topic_outbox.OutboxRecord] = []
        errors: list[KafkaError] = []

        def outcome_of(
            record: topic_outbox.OutboxRecord,
        ) -> Callable[[KafkaError | None, object], None]:
            return lambda error, _: errors.append(error) if error else acknowledged.append(record)

        for record in records:
            self._producer.produce(
                self._topic,
                key=record.key,
                value=record.value,
                on_delivery=outcome_of(record),
            )
        # Each record is acknowledged or fails within SEND_SECONDS. Only then is the next one of its
        # key sent.
        while self._producer.flush(SEND_SECONDS):
            pass
        if acknowledged:
            db.execute("BEGIN IMMEDIATE")
            topic_outbox.record_published(db, acknowledged)
            db.execute("COMMIT")
        return errors[0] if errors else None

    def _topic_id(self) -> str:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        found = admin.describe_topics(TopicCollection([self._topic]), request_timeout=SEND_SECONDS)
        return str(found[self._topic].result().topic_id)

    def forget(self) -> None:
        """Prepare again before the next record: the topic may be another one by then."""
        self._is_prepared = False

    def _read_keys(self) -> list[topic_outbox.Key]:
        """Return the keys in the topic, without those that were removed."""
        present = {
            message.key() or b"": message.value() is not None
            for message in read_to_end(self._bootstrap, self._topic, SEND_SECONDS)
        }
        keys = (
            key.decode("utf-8", "replace").split("|", 1) for key, is_in in present.items() if is_in
        )
        return [(key[0], key[1]) for key in keys if len(key) == 2 and key[0] in RULES]
