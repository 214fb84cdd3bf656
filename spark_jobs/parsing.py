"""From a topic's bytes to typed columns, and the reason why a record could not be read.

`from_json` alone is too kind: it takes a number where the schema says text, and what follows the closing brace. So
the text is parsed inside an envelope that anything else in it would break, and text fields that could be something
else's rendering (`5`, `true`, `{"a": 1}`) have their JSON type looked up. The look-up costs as much as the parse, hence
only for the few records that need it; so does the sentence that says what is wrong.
"""

from dataclasses import dataclass
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.records import INSTANT_PATTERN, MAX_ID_BYTES, UserAction
from events.spark_schemas import choices, is_id, spark_schema
from spark_jobs.usual_form import usual_form

FUTURE_TOLERANCE = "5 minutes"
"""How far ahead of its append time an event may be before a job by event time sets it aside."""

_JSON_OPTIONS = {
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    "columnNameOfCorruptRecord": "faulty",
}
_FIRST_OF_OTHER_JSON = list(
    b'-0123456789tf{["'  # how a number, a boolean, an object, an array, and 1e999 as text begin
)
_TEXT_TYPES = (T.StringType, T.TimestampType)
_WIDE = "decimal(38,20)"
"""How money is parsed: as text a long number would be rounded, and as what it is meant to be a tenth of a cent too."""


def parse(raw: DataFrame, record: type[msgspec.Struct], keep: tuple[str, ...] = ()) -> DataFrame:
    """Return the records of a topic as columns.

    In: Kafka's columns `key`, `value` (bytes), `partition`, `offset`, `timestamp`. Out: those, the fields of
    `record` with their Spark types (instants as timestamps), and `error`: null, or the sentence that says why the
    record could not be read, in which case its fields mean nothing. Columns to `keep` go along as they are.
    """
    fields = spark_schema(record).fields
    wire_schema = ", ".join(f"{field.name} {_wire_type(field)}" for field in fields)
    form, text = usual_form(record), F.col("value").cast("string")
    usual = form.holds(text) if form else F.lit(False)
    found = form.values(F.col("parts")) if form else {}
    typed = {
        field.name: F.when(F.col("usual"), found[field.name]).otherwise(_typed(field))
        if form
        else _typed(field)
        for field in fields
    }
    # A projection for each step: a filter on `error` must not carry the parse with it and so do it twice.
    return (
        raw.withColumn("usual", usual)
        .withColumns(
            {
                "parts": F.when(F.col("usual"), F.split(text, '"')),
                "json": F.when(~F.col("usual"), _envelope(wire_schema)),
            }
        )
        .select(
            *("key", "value", "partition", "offset", "timestamp", *keep),
            *[column.alias(name) for name, column in typed.items()],
            F.when(~F.col("usual"), _error(fields, record)).alias("error"),
        )
    )


def reject_future(parsed: DataFrame) -> DataFrame:
    """Add to `error` the events too far ahead of their append time: one wrong clock must not make all others late."""
    ahead = F.col("event_time") > F.col("timestamp") + F.expr(f"INTERVAL {FUTURE_TOLERANCE}")
    sentence = F.lit(f"event_time is more than {FUTURE_TOLERANCE} ahead of the append time")
    return parsed.withColumn("error", F.coalesce(F.col("error"), F.when(ahead, sentence)))


def readable(parsed: DataFrame) -> DataFrame:
    """Return the records without error."""
    return parsed.where(F.col("error").isNull()).drop("error")


def unreadable(parsed: DataFrame) -> DataFrame:
    """Return the records with an error: exactly those that `readable` leaves out."""
    return parsed.where(F.col("error").isNotNull())


@dataclass(frozen=True, slots=True)
class _Check:
    """What must be true of a good record, and the sentence for when it is not."""

    good: Column
    sentence: str


def _envelope(schema: str) -> Column:
    """Return the text parsed as one of exactly two records of a list: whatever else is in the value breaks that.

    The other record is the value's hash, so that no value can bring it along and close the list itself.
    """
    text, seal = F.col("value").cast("string"), F.xxhash64("value").cast("string")
    whole = F.concat(F.lit('{"records":['), text, F.lit(',{"seal":'), seal, F.lit("}]}"))
    return F.from_json(whole, f"records ARRAY<STRUCT<{schema}, seal BIGINT>>, faulty STRING", _JSON_OPTIONS)


def _record(envelope: Column, place: int = 0) -> Column:
    # Null where there is none; an index in brackets would end the query.
    return F.get(envelope.getField("records"), F.lit(place))


def _wire_type(field: T.StructField) -> str:
    if isinstance(field.dataType, T.DecimalType):
        return _WIDE
    return "STRING" if isinstance(field.dataType, _TEXT_TYPES) else field.dataType.simpleString()


def _wire(field: T.StructField) -> Column:
    return _wire_of(field.name)


def _wire_of(name: str) -> Column:
    return _record(F.col("json")).getField(name)


def _typed(field: T.StructField) -> Column:
    column = _wire(field)
    if isinstance(field.dataType, T.TimestampType | T.DecimalType):
        return column.try_cast(field.dataType)
    return column


def _error(fields: list[T.StructField], record: type[msgspec.Struct]) -> Column:
    """Return the first thing that is wrong with a record, as a sentence, or null."""
    checks = [
        _Check(F.length("value") > 0, "the value is empty"),
        _Check(F.is_valid_utf8("value"), "the value is not UTF-8"),
        _Check(
            (F.size("json.records") == 2)
            & _record(F.col("json")).isNotNull()
            & (_record(F.col("json"), 1).getField("seal") == F.xxhash64("value")),
            "the value is not one JSON object",
        ),
    ]
    for field in fields:
        checks += _field_checks(field, is_id(record, field.name), choices(record, field.name))
    if record is UserAction:
        priced = (_wire_of("action") != "purchase") | _wire_of("amount").isNotNull()
        checks.append(_Check(priced, "amount is missing"))
    # The parser goes on after a fault inside a field, and makes the field null, as if it were absent.
    checks.append(_Check(F.col("json.faulty").isNull(), "the value is not one JSON object"))
    texts = [field for field in fields if isinstance(field.dataType, T.StringType)]
    money = [field for field in fields if isinstance(field.dataType, T.DecimalType)]
    text_checks = _text_checks(texts, money)
    suspicious = _may_be_other_json(texts) | _may_be_quoted(money)
    good = _all(checks) & F.when(suspicious, _all(text_checks)).otherwise(F.lit(True))
    sentences = [
        F.when(~F.coalesce(c.good, F.lit(False)), F.lit(c.sentence)) for c in [*checks, *text_checks]
    ]
    return F.when(good, F.lit(None)).otherwise(F.coalesce(*sentences, F.lit("the value could not be read")))


def _all(checks: list[_Check]) -> Column:
    return reduce(lambda a, b: a & b, (check.good for check in checks))


def _field_checks(field: T.StructField, limited: bool, listed: tuple[str, ...]) -> list[_Check]:
    """Return what can be checked on the parsed value alone. An optional field may be absent, but not wrong.

    `limited` is an id, whose length has a bound; `listed` are the only texts that it may be, if there are any.
    """
    column, name, absent = _wire(field), field.name, _wire(field).isNull() if field.nullable else F.lit(False)
    match field.dataType:
        case T.TimestampType():
            a_time = column.rlike(INSTANT_PATTERN) & column.try_cast("timestamp").isNotNull()
            required = [] if field.nullable else [_Check(column.isNotNull(), f"{name} is missing")]
            return [*required, _Check(absent | a_time, f"{name} is not a time in UTC ending in Z")]
        case T.DoubleType():
            finite = F.abs(column) < float("inf")  # NaN compares as larger than infinity
            return [
                _Check(absent | column.isNotNull(), f"{name} is missing or not a number"),
                _Check(absent | finite, f"{name} is not finite"),
            ]
        case T.LongType():
            return [_Check(absent | column.isNotNull(), f"{name} is missing or not an integer")]
        case T.StringType():
            short = [
                _Check(
                    absent | (F.octet_length(column) <= MAX_ID_BYTES), f"{name} is over {MAX_ID_BYTES} bytes"
                )
            ]
            known = [_Check(absent | column.isin(list(listed)), f"{name} is none of {', '.join(listed)}")]
            return [
                _Check(absent | column.isNotNull(), f"{name} is missing"),
                *(short if limited else []),
                *(known if listed else []),
            ]
        case T.DecimalType():
            # Null is what anything but a number becomes, too.
            there = F.col("value").cast("string").rlike(rf'"{name}"\s*:\s*[^n\s]')
            lost = column.isNull() & F.col("json.faulty").isNotNull() & there
            required = [] if field.nullable else [_Check(column.isNotNull(), f"{name} is missing")]
            return [
                _Check(~lost, f"{name} is not money"),
                *required,
                _Check(absent | (column >= 0), f"{name} is negative"),
                _Check(absent | (column == column.try_cast(field.dataType)), f"{name} is not money"),
            ]
        case T.ArrayType():
            return [_Check(absent | column.isNotNull(), f"{name} is missing or not a list")]
    raise TypeError(f"no check is defined for a field of type {field.dataType}")


def _may_be_other_json(texts: list[T.StructField]) -> Column:
    # A lone surrogate escape becomes a question mark when read as text; only the look-up sees it.
    escaped = F.contains(F.col("value").cast("string"), F.lit("\\u"))
    doubtful = (F.ascii(_wire(field)).isin(_FIRST_OF_OTHER_JSON) & ~_stands_as_text(field) for field in texts)
    return reduce(lambda a, b: a | b, doubtful, escaped)


def _stands_as_text(field: T.StructField) -> Column:
    """Tell whether the value holds the field's name once, followed by its text in quotes, as written without spaces.

    Half of all ids begin like a number, so that the look-up must not be their rule. Elsewhere than as the field itself
    the name cannot stand in quotes without being there twice, or the field being absent.
    """
    value, name = F.col("value").cast("string"), f'"{field.name}"'
    once = F.octet_length(F.substring_index(value, name, 2)) == F.octet_length(value)
    return once & F.contains(value, F.concat(F.lit(f'{name}:"'), _wire(field), F.lit('"')))


def _may_be_quoted(money: list[T.StructField]) -> Column:
    """Tell whether a number may be there as text; a name with an escape in it is suspicious already."""
    value = F.col("value").cast("string")
    quoted = (_wire(field).isNotNull() & value.rlike(rf'"{field.name}"\s*:\s*"') for field in money)
    return reduce(lambda a, b: a | b, quoted, F.lit(False))


def _text_checks(texts: list[T.StructField], money: list[T.StructField]) -> list[_Check]:
    """Return what the JSON types of fields say that were parsed as text: text is text, and money is not."""
    variants = _record(_envelope(", ".join(f"{field.name} VARIANT" for field in [*texts, *money])))
    checks = []
    for field in texts:
        is_text = F.schema_of_variant(variants.getField(field.name)).eqNullSafe("STRING")
        good = _wire(field).isNull() | is_text if field.nullable else is_text
        checks.append(_Check(good, f"{field.name} is not text"))
    for field in money:
        kind = F.schema_of_variant(variants.getField(field.name))
        # DECIMAL(4,2) or BIGINT, by how the number is written.
        good = _wire(field).isNull() | kind.rlike("^(DECIMAL|BIGINT|DOUBLE)")
        checks.append(_Check(good, f"{field.name} is not a number"))
    return checks
