"""Derive the Spark schemas from the records, so that no field is named twice."""

from typing import Any

import msgspec
from msgspec import inspect
from pyspark.sql import types as T


def spark_schema(record: type[msgspec.Struct]) -> T.StructType:
    """Return the Spark schema of a record class: one column per field, nullable if optional.

    Instants become timestamps, money becomes decimal(18,2), a literal becomes a string.
    """
    info = inspect.type_info(record)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{record!r} is not a record")
    return T.StructType([_column(field.encode_name, field.type) for field in info.fields])


def choices(record: type[msgspec.Struct], field: str) -> tuple[str, ...]:
    """Return the values that a field may have; empty if any text is allowed."""
    kind = _field_type(record, field)
    return tuple(map(str, kind.values)) if isinstance(kind, inspect.LiteralType) else ()


def _field_type(record: type[msgspec.Struct], field: str) -> inspect.Type | None:
    info = inspect.type_info(record)
    kinds = (
        {f.encode_name: f.type for f in info.fields} if isinstance(info, inspect.StructType) else {}
    )
    return _inner(kinds[field])[0] if field in kinds else None


def _column(name: str, kind: inspect.Type) -> T.StructField:
    inner, nullable = _inner(kind)
    return T.StructField(name, _spark_type(inner), nullable)


def _inner(kind: inspect.Type) -> tuple[inspect.Type, bool]:
    """Return the type without null, and whether null is allowed."""
    if not isinstance(kind, inspect.UnionType):
        return kind, False
    (inner,) = (t for t in kind.types if not isinstance(t, inspect.NoneType))
    return inner, True


def _spark_type(kind: inspect.Type) -> T.DataType:
    extra: dict[str, Any] = {}
    if isinstance(kind, inspect.Metadata):
        extra, kind = kind.extra or {}, kind.type
    if extra.get("spark") == "timestamp":
        return T.TimestampType()
    match kind:
        case inspect.StrType() | inspect.LiteralType():
            return T.StringType()
        case inspect.BoolType():
            return T.BooleanType()
        case inspect.IntType():
            return T.LongType()
        case inspect.FloatType():
            return T.DoubleType()
        case inspect.DecimalType():
            return T.DecimalType(18, 2)
        case inspect.ListType():
            return T.ArrayType(_spark_type(kind.item_type), containsNull=False)
        case inspect.StructType():
            return spark_schema(kind.cls)
    raise TypeError(f"no Spark type is defined for {kind!r}")
