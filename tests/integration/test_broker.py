"""Questions to the broker that every other test stands on."""

import pytest

from events.topics import RACK_READINGS
from tests.support import Kafka

pytestmark = pytest.mark.broker


def test_what_is_sent_can_be_read_back_in_order(topics: Kafka) -> None:
    topics.send(RACK_READINGS, [(f"rack-{n % 7}", str(n).encode()) for n in range(1000)])
    records = topics.read_all(RACK_READINGS)
    assert sorted(int(r.value or b"") for r in records) == list(range(1000))
    for rack in range(7):
        of_rack = [r for r in records if r.key == f"rack-{rack}".encode()]
        assert len({r.partition for r in of_rack}) == 1
        assert [int(r.value or b"") for r in of_rack] == list(range(rack, 1000, 7))
