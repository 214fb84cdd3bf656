"""Create the topics of one point before it, and remove them after it."""

from collections.abc import Sequence

from broker.topics import admin_client, create_topics
from events.topics import Topic


def create(servers: str, prefix: str, inputs: Sequence[Topic], partitions: int) -> None:
    """Create all topics of the contract with a prefix, the inputs with this many partitions."""
    create_topics(servers, prefix, partitions={topic.name: partitions for topic in inputs})


def remove(servers: str, prefix: str) -> None:
    """Remove all topics with a prefix, to free their disk."""
    with admin_client(servers) as admin:
        admin.delete_topics([name for name in admin.list_topics() if name.startswith(prefix)])
