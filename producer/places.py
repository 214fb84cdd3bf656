"""Represent places of records in a topic as integers, which take less memory than tuples."""

from typing import TypeVar

from producer.hashing import Ints

PARTITION_BITS = 48
"""A place in a topic is one integer: its partition above so many bits, and its offset in them."""
OFFSET_MASK = (1 << PARTITION_BITS) - 1
Number = TypeVar("Number", int, Ints)


def place_of(partition: Number, offset: Number) -> Number:
    """Return the places of records."""
    return (partition << PARTITION_BITS) | offset


def split_place(place: int) -> tuple[int, int]:
    """Return partition and offset."""
    return place >> PARTITION_BITS, place & OFFSET_MASK
