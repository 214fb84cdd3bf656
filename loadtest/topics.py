"""The topics of one point: made before it, removed after it."""

from collections.abc import Sequence

from broker.topics import admin_client, create_topics
from events.topics import Topic


def make(servers: str, prefix: str, inputs: Sequence[Topic], partitions: int) -> None:
    """Make all topics of the contract with a prefix, the inputs with as many partitions as the point wants."""
    create_topics(servers, prefix, partitions={topic.name: partitions for topic in inputs})


def remove(servers: str, prefix: str) -> None:
    """Remove all topics with a prefix: what they hold takes disk."""
    with admin_client(servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(prefix)])
