"""Recognise records in canonical JSON by one pattern, and take their fields from it.

Canonical JSON is how `events.records.encode` writes a record: all fields in their order, optional
ones last or left out, without spaces or escapes, in printable ASCII. A value that matches the
pattern is valid, and its fields stand between its quotation marks. That takes a fraction of a JSON
parser's work. Every other value goes through the strict parser, with the same result.
"""

from dataclasses import dataclass

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.records import MAX_ID_BYTES, Event, RequiredWhen, rules_of
from events.spark_schemas import choices, spark_schema

# Each alternative is spelled out: Java saves a place whenever it enters a group.
_DAY = "|".join(
    f"{month}-{day}"
    for months, days in (
        (("0[1-9]", "1[0-2]"), ("[12][0-8]", "0[1-9]", "19")),
        (("0[13-9]", "1[0-2]"), ("29", "30")),
        (("0[13578]", "1[02]"), ("31",)),
    )
    for month in months
    for day in days
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
INSTANT = rf"[1-9][0-9]{{3}}-(?:{_DAY})T{_TIME}Z"
"""Dates that every parser accepts; 29 February is left to the strict parser."""
MONEY = r"(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,2})?"
_TEXT = (
    '"['
    + "".join(c if c.isalnum() else rf"\{c}" for c in map(chr, range(32, 127)) if c not in '"\\')
    + ']*"'
)
"""Printable ASCII without the quotation mark and the backslash, in quotation marks.

Java looks single characters up in a table, but calls a function for each range of a class. It
repeats a class in a loop only without a bound, so the bound is that of the whole value.
"""
# Possessive (`+`): what follows a number is no digit, so a shorter match need not be tried.
_INTEGER = r"(?:-?[1-9][0-9]{0,17}+|0)"
_NUMBER = r"(?:-?[1-9][0-9]{0,8}+(?:\.[0-9]{1,9}+)?+|-?0\.[0-9]{1,9}+|0)"
"""Without -0, which becomes 0 in one parser and -0 in another."""


@dataclass(frozen=True, slots=True)
class CanonicalJson:
    """The canonical JSON of one record class."""

    pattern: str
    """A Java pattern for the whole value."""
    max_bytes: int
    """See `max_bytes_of_short_ids`."""
    fields: tuple[T.StructField, ...]
    rules: tuple[RequiredWhen, ...]

    def matches(self, text: Column) -> Column:
        """Tell whether a value, as text, is canonical; false for null."""
        is_canonical = self.is_short(text) & text.rlike(self.pattern)
        for is_needed, is_given in self.required_parts(text):
            is_canonical &= ~is_needed | is_given
        return F.coalesce(is_canonical, F.lit(False))

    def is_short(self, text: Column) -> Column:
        """Tell whether a value's size leaves no room for an id that is too long."""
        return F.octet_length(text) <= self.max_bytes

    def required_parts(self, text: Column) -> list[tuple[Column, Column]]:
        """Return for each rule whether a matching value needs a field, and whether it has it."""
        return [
            (
                F.contains(text, F.lit(f'"{rule.other}":"{rule.value}"')),
                F.contains(text, F.lit(f',"{rule.field}":')),
            )
            for rule in self.rules
        ]

    def capture_instant(self, field: str) -> str:
        """Return the pattern with the time of one field as its only group, without the `Z`.

        Spark reads a time without a zone in the zone of the session, which is UTC. Of a time with a
        zone it would look the zone up.
        """
        before, after = f'"{field}":"', INSTANT.removesuffix("Z")
        return self.pattern.replace(before + after, f"{before}({after})", 1)

    def values(self, parts: Column) -> dict[str, Column]:
        """Return each field with its Spark type, null where an optional one is absent.

        In: the value split at its quotation marks: `{`, a name, `:`, a text, `,`, a name, `:12,`,
        and so on.
        """
        columns, index = {}, F.lit(1)
        for field in self.fields:
            quoted = isinstance(field.dataType, T.StringType | T.TimestampType)
            part = F.get(parts, index + (2 if quoted else 1))
            # A number stands between a colon and the comma or brace that ends it.
            text = part if quoted else F.substring(part, F.lit(2), F.length(part) - 2)
            value = (
                text if isinstance(field.dataType, T.StringType) else text.try_cast(field.dataType)
            )
            width = F.lit(4 if quoted else 2)
            if field.nullable:
                present = F.get(parts, index).eqNullSafe(field.name)
                value, width = F.when(present, value), F.when(present, width).otherwise(0)
            columns[field.name] = value
            index = index + width
        return columns


def canonical_json(record: type[msgspec.Struct]) -> CanonicalJson | None:
    """Return the canonical JSON of a record class, or None if a field has no pattern (a list)."""
    fields = spark_schema(record).fields
    patterns = [_value_pattern(record, field) for field in fields]
    if None in patterns:
        return None
    required = ",".join(
        f'"{f.name}":{p}' for f, p in zip(fields, patterns, strict=True) if not f.nullable
    )
    optional = "".join(
        f'(?:,"{f.name}":{p})?' for f, p in zip(fields, patterns, strict=True) if f.nullable
    )
    in_order = tuple(sorted(fields, key=lambda field: field.nullable))
    pattern = rf"\A\{{{required}{optional}\}}\z"
    return CanonicalJson(pattern, max_bytes_of_short_ids(record), in_order, rules_of(record))


def max_bytes_of_short_ids(record: type[msgspec.Struct]) -> int:
    """Return the size of a value up to which no text is longer than an id may be.

    Beside the names of its required fields, such a value has room for one id of the longest size.
    """
    names = [field.name for field in spark_schema(record).fields if not field.nullable]
    return sum(len(f'"{name}":') for name in names) + MAX_ID_BYTES


def non_canonical(raw: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return the records of a topic that may be dead letters.

    These are the records that are not canonical, and the events whose time is ahead of their append
    time.
    """
    canonical = canonical_json(record)
    if canonical is None:
        return raw
    text = F.col("value").cast("string")
    if not issubclass(record, Event):
        return raw.where(~canonical.matches(text))
    # One pass of the pattern tells whether the value is canonical and when the event happened.
    event_time = F.regexp_extract(text, canonical.capture_instant("event_time"), 1)
    is_valid = canonical.is_short(text) & (event_time.try_cast("timestamp") <= F.col("timestamp"))
    for needed, given in canonical.required_parts(text):
        is_valid &= ~needed | given
    return raw.where(~F.coalesce(is_valid, F.lit(False)))


def _value_pattern(record: type[msgspec.Struct], field: T.StructField) -> str | None:
    """Return the pattern of a field's value."""
    allowed = choices(record, field.name)
    match field.dataType:
        case T.StringType() if allowed:
            return f'"(?:{"|".join(allowed)})"'
        case T.StringType():
            return _TEXT
        case T.TimestampType():
            return f'"{INSTANT}"'
        case T.LongType():
            return _INTEGER
        case T.DoubleType():
            return _NUMBER
        case T.DecimalType():
            return MONEY
    return None
