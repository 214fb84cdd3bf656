"""Decode the records of topics, and count those that cannot be read."""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import msgspec

from events.ids import long_id
from events.times import to_ms

T = TypeVar("T", bound=msgspec.Struct)

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoders raise for a wrong record; the last one for a value that is nested too deeply."""


class Received(NamedTuple):
    """A record of a topic; `append_ms` is when the broker received it."""

    key: bytes | None
    value: bytes | None
    append_ms: int


class RecordReader:
    """Decodes records; `rejected` is how many of them could not be read."""

    def __init__(self) -> None:
        self.rejected = 0

    def reject(self) -> None:
        """Count a record that is left out."""
        self.rejected += 1

    def decoded(self, records: Iterable[Received], decoder: msgspec.json.Decoder[T]) -> list[T]:
        """Return the values that can be read; a tombstone has none."""
        return [value for _, value in self.with_records(records, decoder)]

    def with_records(
        self, records: Iterable[Received], decoder: msgspec.json.Decoder[T]
    ) -> list[tuple[Received, T]]:
        """Return the values that can be read, each with its record."""
        found = []
        for record in records:
            if record.value is not None:
                try:
                    value = decoder.decode(record.value)
                except UNREADABLE:
                    self.reject()
                    continue
                if long_id(value):
                    self.reject()
                else:
                    found.append((record, value))
        return found


def calendar_ms(text: str) -> int | None:
    """Return epoch milliseconds, or None for a date that no calendar has."""
    try:
        return to_ms(text)
    except ValueError:
        return None
