"""The topics of one point: made before it, removed after it."""

from collections.abc import Sequence

from broker.topics import admin_client, create_topics
from events.topics import TOPIC_CONFIG, Topic


def make(servers: str, prefix: str, inputs: Sequence[Topic], partitions: int) -> None:
    """Make all topics of the contract with a prefix, the inputs with as many partitions as the point wants."""
    wanted = {
        prefix + topic.name: {"num_partitions": partitions, "replication_factor": 1, "configs": TOPIC_CONFIG}
        for topic in inputs
        if topic.partitions != partitions
    }
    if wanted:
        with admin_client(servers) as admin:
            admin.create_topics(wanted)
    create_topics(servers, prefix)


def remove(servers: str, prefix: str) -> None:
    """Remove all topics with a prefix: what they hold takes disk."""
    with admin_client(servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(prefix)])
