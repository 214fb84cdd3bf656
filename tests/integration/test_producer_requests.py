"""A producer has one request at a time under way, so that its broker cannot refuse the first only.

A broker that has just started may refuse the first batch of a partition and accept the second; sent
again, it would take the first one for a duplicate, and it would be lost.
"""

import pytest

from broker.server import RunningBroker
from events.topics import RACK_READINGS
from producer.publish import Publisher
from tests.integration.relay import Relay
from tests.support import Kafka

pytestmark = pytest.mark.full


def test_one_request_at_a_time_is_under_way(broker: RunningBroker, topics: Kafka) -> None:
    keys = [f"rack-{number:04d}".encode() for number in range(40)]
    with Relay(broker.port).running() as relay:
        publisher = Publisher(f"127.0.0.1:{relay.port}", linger_ms=5)
        publisher.send(topics.name(RACK_READINGS), keys, [b"{}"] * len(keys))
        publisher.flush(lambda: None, lambda: False)
        assert publisher.acknowledged == len(keys)
    assert len(topics.read_all(RACK_READINGS)) == len(keys)
    assert relay.produce_requests >= RACK_READINGS.partitions
    assert relay.most_under_way == 1
