"""The topics of the contract on a broker, and the one way to ask a broker something."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, NoError, TopicAlreadyExistsError, for_code

from events.cli import PersonError
from events.topics import ALL, TOPIC_CONFIG


@contextmanager
def admin_client(bootstrap: str, timeout_s: float = 10) -> Iterator[KafkaAdminClient]:
    """Yield an admin client of the broker; raise `PersonError` at once when nothing listens there."""
    if not any(_listens(server) for server in bootstrap.split(",")):
        raise PersonError(
            f"no broker answers at {bootstrap}: start one with `python -m broker up`, "
            "or set KAFKA_BOOTSTRAP_SERVERS to where one runs."
        )
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","), bootstrap_timeout_ms=int(timeout_s * 1000)
        )
    except KafkaError:
        raise PersonError(
            f"something listens at {bootstrap}, but gave no answer as a Kafka broker within {timeout_s:g} s: "
            "check the port, or what else runs there."
        ) from None
    try:
        yield client
    finally:
        client.close()


def cluster_id(bootstrap: str, timeout_s: float = 10) -> str:
    """Return the id of the cluster that answers there; raise `PersonError` when none does."""
    with admin_client(bootstrap, timeout_s) as admin:
        return str(admin.describe_cluster()["cluster_id"])


def missing_topics(bootstrap: str, prefix: str, timeout_s: float = 10) -> list[str]:
    """Return the contract's topics, with the prefix, that the broker does not have."""
    with admin_client(bootstrap, timeout_s) as admin:
        return _missing(admin, prefix)


def create_topics(
    bootstrap: str, prefix: str = "", replication_factor: int = 1, partitions: Mapping[str, int] | None = None
) -> list[str]:
    """Create the contract's topics that are missing, and return their names; existing ones stay as they are.

    `partitions` are those of topics, by name without the prefix, that are to have others than the contract's.
    When it returns, every topic of the contract has a leader for each partition.
    """
    wanted = {topic.name: topic.partitions for topic in ALL} | dict(partitions or {})
    with admin_client(bootstrap) as admin:
        missing = _missing(admin, prefix)
        if not missing:
            return []
        try:
            made = admin.create_topics(
                {
                    name: {
                        "num_partitions": wanted[name.removeprefix(prefix)],
                        "replication_factor": replication_factor,
                        "configs": TOPIC_CONFIG,
                    }
                    for name in missing
                },
                raise_errors=False,
            )
            for topic in made["topics"]:
                if for_code(topic["error_code"]) not in (NoError, TopicAlreadyExistsError):
                    raise PersonError(f"the topic {topic['name']} was not created: {topic['error_message']}")
            admin.wait_for_topics(missing, timeout_ms=30_000)
        except KafkaError as error:
            raise PersonError(f"the topics were not created on {bootstrap}: {error}") from None
    return [topic["name"] for topic in made["topics"] if not topic["error_code"]]


def _missing(admin: KafkaAdminClient, prefix: str) -> list[str]:
    present = set(admin.list_topics())
    return [prefix + topic.name for topic in ALL if prefix + topic.name not in present]


def _listens(server: str) -> bool:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return True
    except (OSError, OverflowError):
        return False
