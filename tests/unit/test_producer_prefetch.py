"""Prefetching keeps the order, is bounded, and raises errors in the consumer."""

import threading
from collections.abc import Iterator

import pytest

from producer.pacing.prefetch import prefetch
from tests.support import equal_to, eventually


def background_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_items_come_in_order_and_end() -> None:
    assert list(prefetch(iter(range(1000)), size=3)) == list(range(1000))


def test_no_more_items_are_made_than_the_size_allows() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    taken = prefetch(items(), size=3)
    assert next(taken) == 0
    # One is taken, three are ready, and one waits for room.
    eventually(lambda: len(made), lambda count: count == 5)
    taken.close()  # type: ignore[attr-defined]
    eventually(background_threads, equal_to([]))
    assert len(made) == 5


def test_an_error_of_the_background_thread_is_raised_in_the_consumer() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("the second cannot be made")

    taken = prefetch(items())
    assert next(taken) == 1
    with pytest.raises(ValueError, match="the second cannot be made"):
        next(taken)
