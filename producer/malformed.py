"""Corrupt events so that no job can read them: one way per kind."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from events.records import MAX_ID_BYTES, Event, encode
from events.topics import RACK_READINGS, USER_ACTIONS, Topic

MalformedKind = Literal[
    "not-json",
    "not-an-object",
    "not-utf8",
    "empty",
    "missing-field",
    "null-field",
    "string-for-number",
    "number-for-string",
    "fraction-for-integer",
    "nan",
    "infinity",
    "time-without-z",
    "long-id",
    "large",
    "time-with-offset",
    "huge-id",
    "negative-amount",
    "missing-amount",
    "string-for-amount",
    "nan-amount",
    "fraction-of-a-cent",
    "unknown-action",
]
KINDS: tuple[MalformedKind, ...] = get_args(MalformedKind)
_ANYWHERE: tuple[MalformedKind, ...] = (
    "not-json",
    "not-an-object",
    "not-utf8",
    "empty",
    "missing-field",
    "null-field",
    "number-for-string",
    "time-without-z",
    "long-id",
)
_READINGS: tuple[MalformedKind, ...] = (
    "string-for-number",
    "fraction-for-integer",
    "nan",
    "infinity",
)
_CLICKSTREAM: tuple[MalformedKind, ...] = ("time-with-offset", "huge-id")
_ACTIONS: tuple[MalformedKind, ...] = (
    "negative-amount",
    "missing-amount",
    "string-for-amount",
    "nan-amount",
    "fraction-of-a-cent",
    "unknown-action",
)
LARGE_BYTES = 900_000
"""Just below the 1,000,000 that librdkafka sends by default; as base64 more than a broker takes."""


HUGE_ID_BYTES = 10_000


def default_kinds(topic: Topic) -> tuple[MalformedKind, ...]:
    """Return the kinds that a topic's records can have, in order, without `large`."""
    if topic == RACK_READINGS:
        kinds = {*_ANYWHERE, *_READINGS}
    else:
        kinds = {*_ANYWHERE, *_CLICKSTREAM, *(_ACTIONS if topic == USER_ACTIONS else ())}
    return tuple(kind for kind in KINDS if kind in kinds)


def corrupt(event: Event, kind: MalformedKind) -> bytes:
    """Return the value that is sent in place of the event."""
    return _CORRUPTIONS[kind](event)


Corruption = Callable[[Event], bytes]


def _corrupted(event: Event, changes: dict[str, bytes], without: str | None = None) -> bytes:
    """Return the event with the JSON of some fields replaced, and one field left out."""
    fields: dict[str, Any] = {
        name: msgspec.Raw(json)
        for name, json in msgspec.json.decode(encode(event), type=dict[str, msgspec.Raw]).items()
        if name != without
    }
    return msgspec.json.encode(
        {**fields, **{name: msgspec.Raw(json) for name, json in changes.items()}}
    )


def _with(json: bytes, *candidates: str) -> Corruption:
    """Replace the first of the candidate fields that the event has by this JSON."""

    def replace(event: Event) -> bytes:
        return _corrupted(event, {_field(event, candidates): json})

    return replace


def _purchase(changes: dict[str, bytes]) -> Corruption:
    """Make the event a purchase with these fields; without an amount unless they have one."""

    def replace(event: Event) -> bytes:
        return _corrupted(event, {"action": b'"purchase"', **changes}, without="amount")

    return replace


def _field(event: Event, candidates: tuple[str, ...]) -> str:
    return next(name for name in candidates if name in event.__struct_fields__)


def _not_utf8(event: Event) -> bytes:
    start = f'"{_field(event, _TEXTS)}":"'.encode()
    return encode(event).replace(start, start + b"\xff\xfe")


def _with_time_zone(zone: str) -> Corruption:
    def replace(event: Event) -> bytes:
        return _corrupted(
            event, {"event_time": f'"{event.event_time.removesuffix("Z")}{zone}"'.encode()}
        )

    return replace


def _text(size: int) -> bytes:
    return b'"' + b"s" * size + b'"'


_TEXTS = ("site_id", "user_id")
"""Text fields: of readings, and of the clickstream's events."""

_CORRUPTIONS: dict[MalformedKind, Corruption] = {
    "not-json": lambda event: encode(event)[:-20],
    "not-an-object": lambda event: b"[" + encode(event) + b"]",
    "not-utf8": _not_utf8,
    "empty": lambda _: b"",
    "missing-field": lambda event: _corrupted(
        event, {}, without=_field(event, ("temperature_c", "user_id"))
    ),
    "null-field": _with(b"null", "sequence", "user_id"),
    "string-for-number": _with(b'"71.5"', "temperature_c"),
    "number-for-string": _with(b"7", "rack_id", "user_id"),
    "fraction-for-integer": _with(b"7.5", "sequence"),
    "nan": _with(b"NaN", "temperature_c"),
    "infinity": _with(b"-Infinity", "temperature_c"),
    "time-without-z": _with_time_zone(""),
    "long-id": _with(_text(MAX_ID_BYTES + 44), *_TEXTS),
    "large": lambda event: encode(event).ljust(LARGE_BYTES, b"}"),
    "time-with-offset": _with_time_zone("+02:00"),
    "huge-id": _with(_text(HUGE_ID_BYTES), *_TEXTS),
    "negative-amount": _purchase({"amount": b"-12.50"}),
    "missing-amount": _purchase({}),
    "string-for-amount": _purchase({"amount": b'"12.50"'}),
    "nan-amount": _purchase({"amount": b"NaN"}),
    "fraction-of-a-cent": _purchase({"amount": b"12.505"}),
    "unknown-action": _with(b'"steal"', "action"),
}
