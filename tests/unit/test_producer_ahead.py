"""Work done ahead keeps its order, is bounded, and fails where it is used."""

from collections.abc import Iterator

import pytest

from producer.ahead import ahead
from tests.support import eventually


def test_items_come_in_order_and_end() -> None:
    assert list(ahead(iter(range(1000)), look_ahead=3)) == list(range(1000))


def test_no_more_is_made_than_was_asked_for() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    taken = ahead(items(), look_ahead=3)
    assert next(taken) == 0
    eventually(lambda: len(made), lambda count: count == 5)  # one taken, three ready, one in the maker's hand
    taken.close()  # type: ignore[attr-defined]
    assert len(made) == 5


def test_an_error_of_the_maker_is_raised_at_the_user() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second cannot be made")

    taken = ahead(items())
    assert next(taken) == 1
    with pytest.raises(ValueError, match="the second cannot be made"):
        next(taken)
