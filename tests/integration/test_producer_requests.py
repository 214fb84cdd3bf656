"""What a producer sends to its broker, and what it reports while it has no connection."""

import pytest

from broker.server import RunningBroker
from events.topics import RACK_READINGS
from producer.publish import Publisher
from tests.integration.relay import Relay
from tests.support import Kafka, above, eventually

pytestmark = pytest.mark.full


def test_one_request_at_a_time_is_under_way(broker: RunningBroker, topics: Kafka) -> None:
    # A broker that has just started may refuse the first batch of a partition and accept the
    # second; sent again, it would take the first one for a duplicate, and it would be lost.
    keys = [f"rack-{number:04d}".encode() for number in range(40)]
    with Relay(broker.port).running() as relay:
        publisher = Publisher(f"127.0.0.1:{relay.port}", linger_ms=5)
        publisher.send(topics.name(RACK_READINGS), keys, [b"{}"] * len(keys))
        publisher.flush(lambda: None, lambda: False)
        assert publisher.acknowledged == len(keys)
    assert len(topics.read_all(RACK_READINGS)) == len(keys)
    assert relay.produce_requests >= RACK_READINGS.partitions
    assert relay.most_under_way == 1


def test_a_connection_error_is_reported_until_the_broker_answers(
    broker: RunningBroker, topics: Kafka
) -> None:
    topic = topics.name(RACK_READINGS)
    with Relay(broker.port).running() as relay:
        publisher = Publisher(f"127.0.0.1:{relay.port}", linger_ms=5)
        publisher.send(topic, [b"rack-0001"], [b"{}"])
        publisher.flush(lambda: None, lambda: False)
        assert publisher.last_error == ""

    def error_while_waiting() -> str:
        publisher.poll()
        return publisher.last_error

    publisher.send(topic, [b"rack-0001"], [b"{}"])
    assert "refused" in eventually(error_while_waiting, lambda error: "refused" in error)
    with Relay(broker.port, relay.port).running():
        publisher.flush(lambda: None, lambda: False)
        eventually(error_while_waiting, lambda error: not error)
    # The connection ends again. An error that is not yet processed is no unanswered record.
    eventually(lambda: len(publisher._producer), above(0))
    assert (publisher.failed, publisher.acknowledged) == (0, 2)
