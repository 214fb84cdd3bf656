"""A record counts as acknowledged only with its place in the topic."""

from types import SimpleNamespace
from typing import Any

import pytest

from producer.publish import Publisher


def message(offset: int | None) -> Any:
    """Return what librdkafka reports of a record; it has no offset if the broker said none."""
    return SimpleNamespace(
        partition=lambda: 2, offset=lambda: offset, timestamp=lambda: (2, 1_700_000_000_000)
    )


@pytest.mark.parametrize("offset", [0, 7])
def test_an_acknowledged_record_is_noted_with_its_place(offset: int) -> None:
    publisher, noted = Publisher("localhost:9", 5, delivery_reports=True), list[tuple[int, ...]]()
    publisher._delivered(lambda *row: noted.append(row), 11, 4, None, message(offset))
    assert noted == [(11, 4, 2, offset, 1_700_000_000_000)]
    assert publisher.failed == 0


def test_an_acknowledged_record_without_a_place_has_failed() -> None:
    publisher, noted = Publisher("localhost:9", 5, delivery_reports=True), list[tuple[int, ...]]()
    publisher._delivered(lambda *row: noted.append(row), 11, 4, None, message(None))
    assert noted == []
    assert publisher.failed == 1
    assert "duplicate" in publisher.last_error
