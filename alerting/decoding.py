"""Decode and validate the records of the topics `alerts` and `alert-commands`."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import msgspec

from events.ids import long_id
from events.records import MAX_ID_BYTES, Alert, AlertCommand
from events.times import to_ms

R = TypeVar("R", Alert, AlertCommand)
Source = Literal["alerts", "commands"]
"""Which of the two topics a record is from; the topics' names have a prefix."""


class SourceRecord(Protocol):
    """The attributes of a consumed record that alerting uses."""

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
    """An alert seen for the first time: decoded, as the received text, and when.

    `append_ms` is when the broker appended it to the topic, in epoch milliseconds.
    """

    alert: Alert
    text: str
    first_seen_time: str
    append_ms: int


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A record that is not a valid alert or command, and why."""

    partition: int
    offset: int
    error: str


def _decode(value: bytes | None, decoder: "msgspec.json.Decoder[R]") -> R:
    """Decode a record; raise `ValueError` with the reason if it is invalid."""
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
    if name := long_id(record):
        raise ValueError(f"{name} is over {MAX_ID_BYTES} bytes")
    for instant in (
        record.event_time,
        getattr(record, "detected_time", None),
        getattr(record, "until", None),
    ):
        if instant is not None:
            to_ms(instant)  # raises for 30 February, which the pattern of an instant allows
    return record


def decode_alert(record: SourceRecord, seen_time: str) -> NewAlert:
    """Decode an alert; raise `ValueError` with the reason if it is invalid."""
    alert = _decode(record.value, _ALERT_DECODER)
    return NewAlert(alert, (record.value or b"").decode("utf-8"), seen_time, record.timestamp)


def decode_command(value: bytes | None) -> AlertCommand:
    """Decode a command; raise `ValueError` with the reason if it is invalid."""
    command = _decode(value, _COMMAND_DECODER)
    if command.command == "silence" and command.until is None:
        raise ValueError("a silence needs an end, until")
    return command


_ALERT_DECODER = msgspec.json.Decoder(Alert)
_COMMAND_DECODER = msgspec.json.Decoder(AlertCommand)
