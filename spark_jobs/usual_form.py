"""Values in the usual form, read by one pattern in the JVM: a fraction of the work that the general parser has.

The usual form is how `events.records.encode` writes a record: all its fields, in their order, optional ones last or
not at all, without spaces or escapes, in printable ASCII. A value of that form is good by the pattern alone, and its
fields stand between its quotation marks. Everything else, good or bad, is for `parsing`, whose verdict is the same.
"""

from dataclasses import dataclass

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.records import MAX_ID_BYTES, UserAction
from events.spark_schemas import choices, is_id, spark_schema

_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
INSTANT = rf"[1-9][0-9]{{3}}-{_DAY}T{_TIME}Z"
"""Moments that are one for everyone; the last day of a leap February is left to the general parser."""
MONEY = r"(0|[1-9][0-9]{0,15})(\.[0-9]{1,2})?"
_CHARACTER = r"[ !#-\[\]-~]"
"""Printable ASCII without the quotation mark and the backslash."""
_LONGEST_TEXT = 1000
_WHOLE = r"(0|-?[1-9][0-9]{0,17})"
_NUMBER = r"(0|-?[1-9][0-9]{0,8}|-?(0|[1-9][0-9]{0,8})\.[0-9]{1,9})"
"""Without -0, which is nought in JSON and less than that as text."""


@dataclass(frozen=True, slots=True)
class UsualForm:
    """The usual form of one kind of record."""

    pattern: str
    """Java's, for the whole value."""
    fields: tuple[T.StructField, ...]
    needs_price: bool

    def holds(self, text: Column) -> Column:
        """Tell whether a value, as text, has the form; false for null."""
        has_form = text.rlike(self.pattern)
        if self.needs_price:
            has_form &= ~F.contains(text, F.lit('"action":"purchase"')) | F.contains(
                text, F.lit(',"amount":')
            )
        return F.coalesce(has_form, F.lit(False))

    def values(self, parts: Column) -> dict[str, Column]:
        """Return each field with its Spark type, null where an optional one is absent.

        In: the value split at its quotation marks, `{`, a name, `:`, a text, `,`, a name, `:12,`, and so on.
        """
        found, place = {}, F.lit(1)
        for field in self.fields:
            quoted = isinstance(field.dataType, T.StringType | T.TimestampType)
            part = F.get(parts, place + (2 if quoted else 1))
            # What is not quoted stands between a colon and the comma or brace that ends it.
            text = part if quoted else F.substring(part, F.lit(2), F.length(part) - 2)
            value = text if isinstance(field.dataType, T.StringType) else text.try_cast(field.dataType)
            width = F.lit(4 if quoted else 2)
            if field.nullable:
                there = F.get(parts, place).eqNullSafe(field.name)
                value, width = F.when(there, value), F.when(there, width).otherwise(0)
            found[field.name] = value
            place = place + width
        return found


def usual_form(record: type[msgspec.Struct]) -> UsualForm | None:
    """Return the usual form of a kind of record; None for those with fields that have none (lists)."""
    fields = spark_schema(record).fields
    texts = [_text(record, field) for field in fields]
    if None in texts:
        return None
    required = ",".join(f'"{f.name}":{t}' for f, t in zip(fields, texts, strict=True) if not f.nullable)
    optional = "".join(f'(,"{f.name}":{t})?' for f, t in zip(fields, texts, strict=True) if f.nullable)
    in_order = tuple(sorted(fields, key=lambda field: field.nullable))
    return UsualForm(rf"\A\{{{required}{optional}\}}\z", in_order, record is UserAction)


def suspects(raw: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return the records of a topic of which something may be wrong, if only that they are from the future."""
    form = usual_form(record)
    if form is None:
        return raw
    text = F.col("value").cast("string")
    fine = form.holds(text)
    if any(field.name == "event_time" for field in form.fields):
        # Between the seventh quotation mark and the eighth, as the second field; a split would find all the others too.
        event_time = F.substring_index(F.substring_index(text, '"', 8), '"', -1)
        ahead = event_time.try_cast("timestamp") > F.col("timestamp")
        fine = F.when(fine, ~ahead).otherwise(F.lit(False))
    return raw.where(~fine)


def _text(record: type[msgspec.Struct], field: T.StructField) -> str | None:
    """Return the pattern of a field's value."""
    listed = choices(record, field.name)
    match field.dataType:
        case T.StringType() if listed:
            return f'"({"|".join(listed)})"'
        case T.StringType():
            longest = MAX_ID_BYTES if is_id(record, field.name) else _LONGEST_TEXT
            return f'"{_CHARACTER}{{0,{longest}}}+"'
        case T.TimestampType():
            return f'"{INSTANT}"'
        case T.LongType():
            return _WHOLE
        case T.DoubleType():
            return _NUMBER
        case T.DecimalType():
            return MONEY
    return None
