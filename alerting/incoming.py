"""Records as they come from the topics: what is needed of them, and whether they can be read."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import msgspec

from events.records import Alert, AlertCommand
from events.times import to_ms

R = TypeVar("R", Alert, AlertCommand)
Source = Literal["alerts", "commands"]
"""The two topics that are read, by what they are to alerting."""


class SourceRecord(Protocol):
    """What is needed of a consumed record."""

    @property
    def partition(self) -> int: ...  # noqa: D102 - the names are Kafka's
    @property
    def offset(self) -> int: ...  # noqa: D102
    @property
    def timestamp(self) -> int: ...  # noqa: D102
    @property
    def value(self) -> bytes | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class NewAlert:
    """An alert seen for the first time: decoded, as the text that came, and when."""

    alert: Alert
    text: str
    first_seen_time: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """A record that is not an alert or a command, whichever belongs there, and why."""

    partition: int
    offset: int
    error: str


def _read(value: bytes | None, decoder: "msgspec.json.Decoder[R]") -> R:
    """Decode a record; raise `ValueError` that says what is wrong with it."""
    if value is None:
        raise ValueError("it has no value")
    try:
        record = decoder.decode(value)
        value.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    for moment in (record.event_time, getattr(record, "detected_time", None), getattr(record, "until", None)):
        if moment is not None:
            to_ms(moment)  # the pattern lets a 30 February through
    return record


def read_alert(value: bytes | None, seen_time: str) -> NewAlert:
    """Decode an alert that was first seen at a time; raise `ValueError` that says what is wrong with it."""
    alert = _read(value, _ALERT)
    return NewAlert(alert, (value or b"").decode("utf-8"), seen_time)


def read_command(value: bytes | None) -> AlertCommand:
    """Decode a command; raise `ValueError` that says what is wrong with it."""
    command = _read(value, _COMMAND)
    if command.command == "silence" and command.until is None:
        raise ValueError("a silence needs an end, until")
    return command


_ALERT = msgspec.json.Decoder(Alert)
_COMMAND = msgspec.json.Decoder(AlertCommand)
