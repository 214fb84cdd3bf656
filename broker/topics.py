"""Administer a broker: its cluster id, the topics of the contract, and what a topic holds."""

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError, NoError, TopicAlreadyExistsError, for_code

from events.cli import UserFacingError
from events.topics import ALL

_TIMED_OUT = confluent_kafka.KafkaError._TIMED_OUT
_RECORDS_PER_READ = 10_000
_READ_S = 0.2
"""A read waits so long for more records than there are."""


@contextmanager
def admin_client(bootstrap: str, timeout_s: float = 10) -> Iterator[KafkaAdminClient]:
    """Yield an admin client.

    Raises `UserFacingError` at once when nothing listens there, and when requests get no answer.
    """
    if not any(_listens(server) for server in bootstrap.split(",")):
        raise UserFacingError(
            f"no broker answers at {bootstrap}: start one with `python -m broker up`, "
            "or set KAFKA_BOOTSTRAP_SERVERS to where one runs."
        )
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=int(timeout_s * 1000)
        )
    except KafkaError:
        raise UserFacingError(
            f"something listens at {bootstrap}, but gave no answer as a Kafka broker "
            f"within {timeout_s:g} s: check the port, or what else runs there."
        ) from None
    try:
        yield client
    except KafkaError as error:
        raise UserFacingError(
            f"the broker at {bootstrap} did not do what was asked ({error}): see whether it runs."
        ) from None
    finally:
        client.close()


def cluster_id(bootstrap: str, timeout_s: float = 10) -> str:
    """Return the cluster's id; raise `UserFacingError` when no broker answers."""
    with admin_client(bootstrap, timeout_s) as admin:
        return str(admin.describe_cluster()["cluster_id"])


def missing_topics(bootstrap: str, prefix: str, timeout_s: float = 10) -> list[str]:
    """Return the names, with the prefix, of the contract's topics that the broker lacks."""
    with admin_client(bootstrap, timeout_s) as admin:
        return _missing(admin, prefix)


def partition_counts(bootstrap: str, prefix: str, timeout_s: float = 10) -> dict[str, int]:
    """Return the number of partitions of each contract topic that the broker has.

    The keys are the topics' names with the prefix.
    """
    wanted = {prefix + topic.name for topic in ALL}
    with admin_client(bootstrap, timeout_s) as admin:
        return {
            topic["name"]: len(topic["partitions"])
            for topic in admin.describe_topics()
            if topic["name"] in wanted
        }


def create_topics(
    bootstrap: str,
    prefix: str = "",
    replication_factor: int = 1,
    partitions: Mapping[str, int] | None = None,
) -> list[str]:
    """Create the contract's missing topics, and return their names; existing ones stay.

    `partitions` overrides the contract's partition count by topic name without prefix. When this
    returns, every partition of the contract's topics has a leader.
    """
    contract = {prefix + topic.name: topic for topic in ALL}
    wanted = {prefix + name: count for name, count in (partitions or {}).items()}
    with admin_client(bootstrap) as admin:
        missing = _missing(admin, prefix)
        if not missing:
            return []
        try:
            made = admin.create_topics(
                {
                    name: {
                        "num_partitions": wanted.get(name, contract[name].partitions),
                        "replication_factor": replication_factor,
                        "configs": contract[name].config,
                    }
                    for name in missing
                },
                raise_errors=False,
            )
            for topic in made["topics"]:
                if for_code(topic["error_code"]) not in (NoError, TopicAlreadyExistsError):
                    raise UserFacingError(
                        f"the topic {topic['name']} was not created: {topic['error_message']}"
                    )
            admin.wait_for_topics(missing, timeout_ms=30_000)
        except KafkaError as error:
            raise UserFacingError(f"the topics were not created on {bootstrap}: {error}") from None
    return [topic["name"] for topic in made["topics"] if not topic["error_code"]]


def topics_with_senders_time(bootstrap: str, prefix: str) -> list[str]:
    """Return the contract's topics whose records have the sender's time, not their append time."""
    names = [prefix + topic.name for topic in ALL]
    with admin_client(bootstrap) as admin:
        described = admin.describe_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        )["topic"]
    # What is not listed has Kafka's default, the sender's time.
    return [
        name
        for name in names
        if described[name].get("message.timestamp.type", {}).get("value") != "LogAppendTime"
    ]


def read_to_end(
    bootstrap: str, topic: str, timeout_s: float = 30
) -> Iterator[confluent_kafka.Message]:
    """Yield the records that a topic holds now, each partition in its order.

    Raises `KafkaException` when there is no such topic, or no answer for `timeout_s`.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "rackstream-read-to-end",  # never joined, but the client requires one
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    with closing(consumer):
        found = consumer.list_topics(topic, timeout=timeout_s).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        unread = set(found.partitions)
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in unread])
        answered_at = time.monotonic()
        while unread:
            for message in consumer.consume(_RECORDS_PER_READ, timeout=_READ_S):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    unread.discard(message.partition())
                else:
                    continue  # the client tries again
                answered_at = time.monotonic()
            if time.monotonic() - answered_at > timeout_s:
                raise KafkaException(confluent_kafka.KafkaError(_TIMED_OUT))


def append(
    bootstrap: str, topic: str, records: Iterable[tuple[bytes, bytes]], timeout_s: float
) -> None:
    """Append a few records of key and value to a topic, and wait until the broker has all.

    Raises `KafkaException` unless the broker acknowledges each within `timeout_s`.
    """
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "partitioner": "murmur2_random",  # Java's, so a subject's records share a partition
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": round(1000 * timeout_s),
            "log_level": 0,
        }
    )
    for key, value in records:
        producer.produce(
            topic,
            key=key,
            value=value,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    unsent = producer.flush(timeout_s + 1)
    if errors or unsent:
        raise KafkaException(errors[0] if errors else confluent_kafka.KafkaError(_TIMED_OUT))


def _missing(admin: KafkaAdminClient, prefix: str) -> list[str]:
    present = set(admin.list_topics())
    return [prefix + topic.name for topic in ALL if prefix + topic.name not in present]


def _listens(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return True
    except (OSError, OverflowError, UnicodeError):  # the last: `a..b` is no host's name
        return False
