"""Define collections that forget their oldest entries, so that memory stays bounded."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentIds:
    """Remembers the last ids that were added, to recognise records that arrive again."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[int, None] = {}

    def add(self, *parts: object) -> bool:
        """Add an id given in parts; return whether it is new."""
        number = hash(parts)
        if number in self._ids:
            return False
        self._ids[number] = None
        if len(self._ids) > self._limit:
            del self._ids[next(iter(self._ids))]
        return True


class BoundedDict(Generic[Key, Value]):
    """A dictionary that removes the entry that was set least recently when it is full."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """Return the value of a key, or None."""
        return self._entries.get(key)

    def set(self, key: Key, value: Value) -> Value | None:
        """Set a value; return the one that had to make room, if any."""
        self._entries.pop(key, None)
        self._entries[key] = value
        if len(self._entries) > self._limit:
            return self._entries.pop(next(iter(self._entries)))
        return None

    def values(self) -> Iterator[Value]:
        """Return the values, the least recently set one first."""
        return iter(self._entries.values())

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
