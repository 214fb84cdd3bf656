"""Represent positions of records in a topic as integers, which take less memory than tuples."""

from typing import TypeVar

from producer.hashing import Ints

OFFSET_BITS = 48
"""A position is one integer: so many bits for the offset, and above them the partition."""
OFFSET_MASK = (1 << OFFSET_BITS) - 1
Number = TypeVar("Number", int, Ints)


def position_of(partition: Number, offset: Number) -> Number:
    """Return the positions of records."""
    return (partition << OFFSET_BITS) | offset


def split_position(position: int) -> tuple[int, int]:
    """Return partition and offset."""
    return position >> OFFSET_BITS, position & OFFSET_MASK
