"""Check ids against the limit in bytes; decoders count characters."""

from functools import cache

import msgspec
from msgspec import inspect

from events.records import MAX_ID_BYTES


@cache
def id_fields(record: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a record class that are ids, whose length the contract limits."""
    info = inspect.type_info(record)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{record!r} is not a record")
    return tuple(field.encode_name for field in info.fields if _is_id(field.type))


def _is_id(kind: inspect.Type) -> bool:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return any(
        isinstance(one, inspect.Metadata) and (one.extra or {}).get("spark") == "id"
        for one in kinds
    )


def is_too_long(text: str | None) -> bool:
    """Tell whether a text is longer than an id may be; None is not."""
    return text is not None and len(text.encode()) > MAX_ID_BYTES


def long_id(record: msgspec.Struct) -> str | None:
    """Return the first field of a record with an id over 256 bytes, or None."""
    names = id_fields(type(record))
    return next((name for name in names if is_too_long(getattr(record, name))), None)
