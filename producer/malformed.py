"""What does a record look like that no job can read? One way to spoil a reading per kind of the contract."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import msgspec

from events.records import MAX_ID_BYTES, RackReading, encode

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
]
KINDS: tuple[MalformedKind, ...] = get_args(MalformedKind)
USUAL_KINDS = tuple(kind for kind in KINDS if kind != "large")
LARGE_BYTES = 900_000
"""Just below what librdkafka sends by default (1,000,000); as base64 it is more than a broker takes."""


def spoil(reading: RackReading, kind: MalformedKind) -> bytes:
    """Return the value that is sent in place of the reading."""
    return _SPOILERS[kind](reading)


def _with(field: str, json: bytes) -> Callable[[RackReading], bytes]:
    def replace(reading: RackReading) -> bytes:
        fields: dict[str, Any] = msgspec.to_builtins(reading)
        return msgspec.json.encode({**fields, field: msgspec.Raw(json)})

    return replace


def _without(field: str) -> Callable[[RackReading], bytes]:
    def remove(reading: RackReading) -> bytes:
        fields: dict[str, Any] = msgspec.to_builtins(reading)
        del fields[field]
        return msgspec.json.encode(fields)

    return remove


def _without_z(reading: RackReading) -> bytes:
    return encode(msgspec.structs.replace(reading, event_time=reading.event_time.removesuffix("Z")))


def _large(reading: RackReading) -> bytes:
    return encode(reading).ljust(LARGE_BYTES, b"}")


_SPOILERS: dict[MalformedKind, Callable[[RackReading], bytes]] = {
    "not-json": lambda reading: encode(reading)[:-20],
    "not-an-object": lambda reading: b"[" + encode(reading) + b"]",
    "not-utf8": lambda reading: encode(reading).replace(b'"site_id":"', b'"site_id":"\xff\xfe'),
    "empty": lambda _: b"",
    "missing-field": _without("temperature_c"),
    "null-field": _with("sequence", b"null"),
    "string-for-number": _with("temperature_c", b'"71.5"'),
    "number-for-string": _with("rack_id", b"7"),
    "fraction-for-integer": _with("sequence", b"7.5"),
    "nan": _with("temperature_c", b"NaN"),
    "infinity": _with("temperature_c", b"-Infinity"),
    "time-without-z": _without_z,
    "long-id": _with("site_id", b'"' + b"s" * (MAX_ID_BYTES + 44) + b'"'),
    "large": _large,
}
