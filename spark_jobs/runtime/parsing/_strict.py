"""Parse a topic's bytes into typed columns, and say why a record cannot be read.

A value in canonical form is recognised by its pattern (`_canonical`). All others are parsed here.

`from_json` alone is too lenient: it takes a number where the schema says text, and ignores what
follows the closing brace. So each value is parsed inside an envelope that any extra text would
break. Text fields whose content could come from another JSON type (`5`, `true`, `{"a": 1}`) have
their JSON type checked. That check costs as much as the parse, so it runs only for the few records
that need it, as does the sentence that says what is wrong.
"""

from dataclasses import dataclass
from functools import reduce

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.ids import id_fields
from events.records import INSTANT_PATTERN, MAX_ID_BYTES, rules_of
from events.spark_schemas import choices, spark_schema
from spark_jobs.runtime.parsing._canonical import canonical_json

_JSON_OPTIONS = {
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    "columnNameOfCorruptRecord": "corrupt",
}
_FIRST_BYTES_OF_NON_TEXT = list(
    b'-0123456789tf{["'  # of a number, a boolean, an object, a list, and 1e999 rendered as text
)
_TEXT_TYPES = (T.StringType, T.TimestampType)
_MONEY_AS_PARSED = "decimal(38,20)"
"""The type in which money is parsed.

As text a long number would be rounded, and as decimal(18,2) a tenth of a cent would be.
"""


def parse_strictly(
    raw: DataFrame, record: type[msgspec.Struct], keep: tuple[str, ...] = ()
) -> DataFrame:
    """Return the records of a topic as columns.

    In: Kafka's columns `key`, `value` (bytes), `partition`, `offset`, `timestamp`. Out: those, the
    fields of `record` with their Spark types (instants as timestamps), and `error`: null, or the
    sentence that says why the record could not be read. With an error the fields mean nothing. The
    columns `keep` are passed on unchanged.
    """
    fields = spark_schema(record).fields
    wire_schema = ", ".join(f"{field.name} {_wire_type(field)}" for field in fields)
    canonical, text = canonical_json(record), F.col("value").cast("string")
    is_canonical = canonical.matches(text) if canonical else F.lit(False)
    from_canonical = canonical.values(F.col("parts")) if canonical else {}
    typed = {
        field.name: F.when(F.col("is_canonical"), from_canonical[field.name]).otherwise(
            _typed(field)
        )
        if canonical
        else _typed(field)
        for field in fields
    }
    # Each step is a projection of its own: otherwise a filter on `error` would parse once more.
    return (
        raw.withColumn("is_canonical", is_canonical)
        .withColumns(
            {
                "parts": F.when(F.col("is_canonical"), F.split(text, '"')),
                "json": F.when(~F.col("is_canonical"), _envelope(wire_schema)),
            }
        )
        .select(
            *("key", "value", "partition", "offset", "timestamp", *keep),
            *[column.alias(name) for name, column in typed.items()],
            F.when(~F.col("is_canonical"), _error(fields, record)).alias("error"),
        )
    )


@dataclass(frozen=True, slots=True)
class _Check:
    """A condition that a valid record meets, and the sentence for one that does not."""

    passes: Column
    sentence: str


def _envelope(schema: str) -> Column:
    """Return the value parsed as the first element of a two-element array.

    Extra text in the value breaks the array. The second element is a sentinel, the value's own
    hash, so no value can contain it and close the array itself.
    """
    text, sentinel = F.col("value").cast("string"), F.xxhash64("value").cast("string")
    whole = F.concat(F.lit('{"records":['), text, F.lit(',{"sentinel":'), sentinel, F.lit("}]}"))
    return F.from_json(
        whole, f"records ARRAY<STRUCT<{schema}, sentinel BIGINT>>, corrupt STRING", _JSON_OPTIONS
    )


def _record(envelope: Column, index: int = 0) -> Column:
    # Null where there is none; an index in brackets would fail the query.
    return F.get(envelope.getField("records"), F.lit(index))


def _wire_type(field: T.StructField) -> str:
    if isinstance(field.dataType, T.DecimalType):
        return _MONEY_AS_PARSED
    return "STRING" if isinstance(field.dataType, _TEXT_TYPES) else field.dataType.simpleString()


def _parsed(field: T.StructField) -> Column:
    return _parsed_field(field.name)


def _parsed_field(name: str) -> Column:
    return _record(F.col("json")).getField(name)


def _typed(field: T.StructField) -> Column:
    column = _parsed(field)
    if isinstance(field.dataType, T.TimestampType | T.DecimalType):
        return column.try_cast(field.dataType)
    return column


def _error(fields: list[T.StructField], record: type[msgspec.Struct]) -> Column:
    """Return the first thing that is wrong with a record as a sentence, or null."""
    checks = [
        _Check(F.length("value") > 0, "the value is empty"),
        _Check(F.is_valid_utf8("value"), "the value is not UTF-8"),
        _Check(
            (F.size("json.records") == 2)
            & _record(F.col("json")).isNotNull()
            & (_record(F.col("json"), 1).getField("sentinel") == F.xxhash64("value")),
            "the value is not one JSON object",
        ),
    ]
    for field in fields:
        checks += _field_checks(field, field.name in id_fields(record), choices(record, field.name))
    for rule in rules_of(record):
        present = (_parsed_field(rule.other) != rule.value) | _parsed_field(rule.field).isNotNull()
        checks.append(_Check(present, f"{rule.field} is missing"))
    # After a syntax error inside a field the parser continues with a null field, as if it were
    # absent.
    checks.append(_Check(F.col("json.corrupt").isNull(), "the value is not one JSON object"))
    text_fields = [field for field in fields if isinstance(field.dataType, T.StringType)]
    money_fields = [field for field in fields if isinstance(field.dataType, T.DecimalType)]
    text_checks = _text_checks(text_fields, money_fields)
    needs_types = _may_be_non_text(text_fields) | _may_be_quoted(money_fields)
    is_valid = _all(checks) & F.when(needs_types, _all(text_checks)).otherwise(F.lit(True))
    sentences = [
        F.when(~F.coalesce(check.passes, F.lit(False)), F.lit(check.sentence))
        for check in [*checks, *text_checks]
    ]
    return F.when(is_valid, F.lit(None)).otherwise(
        F.coalesce(*sentences, F.lit("the value could not be read"))
    )


def _all(checks: list[_Check]) -> Column:
    return reduce(lambda a, b: a & b, (check.passes for check in checks))


def _field_checks(field: T.StructField, is_limited: bool, allowed: tuple[str, ...]) -> list[_Check]:
    """Return the checks that need only the parsed value; an optional field may be absent.

    `is_limited` says that the field is an id, whose length has a limit. `allowed` are the only
    texts that the field may have; none means any.
    """
    column, name, absent = (
        _parsed(field),
        field.name,
        _parsed(field).isNull() if field.nullable else F.lit(False),
    )
    match field.dataType:
        case T.TimestampType():
            a_time = column.rlike(INSTANT_PATTERN) & column.try_cast("timestamp").isNotNull()
            required = [] if field.nullable else [_Check(column.isNotNull(), f"{name} is missing")]
            return [*required, _Check(absent | a_time, f"{name} is not a time in UTC ending in Z")]
        case T.DoubleType():
            finite = F.abs(column) < float("inf")  # NaN is greater than infinity in Spark
            return [
                _Check(absent | column.isNotNull(), f"{name} is missing or not a number"),
                _Check(absent | finite, f"{name} is not finite"),
            ]
        case T.LongType():
            return [_Check(absent | column.isNotNull(), f"{name} is missing or not an integer")]
        case T.StringType():
            short = [
                _Check(
                    absent | (F.octet_length(column) <= MAX_ID_BYTES),
                    f"{name} is over {MAX_ID_BYTES} bytes",
                )
            ]
            known = [
                _Check(
                    absent | column.isin(list(allowed)), f"{name} is none of {', '.join(allowed)}"
                )
            ]
            return [
                _Check(absent | column.isNotNull(), f"{name} is missing"),
                *(short if is_limited else []),
                *(known if allowed else []),
            ]
        case T.DecimalType():
            # Anything but a number becomes null too.
            present = F.col("value").cast("string").rlike(rf'"{name}"\s*:\s*[^n\s]')
            lost = column.isNull() & F.col("json.corrupt").isNotNull() & present
            required = [] if field.nullable else [_Check(column.isNotNull(), f"{name} is missing")]
            return [
                _Check(~lost, f"{name} is not money"),
                *required,
                _Check(absent | (column >= 0), f"{name} is negative"),
                _Check(
                    absent | (column == column.try_cast(field.dataType)), f"{name} is not money"
                ),
            ]
        case T.ArrayType():
            return [_Check(absent | column.isNotNull(), f"{name} is missing or not a list")]
    raise TypeError(f"no check is defined for a field of type {field.dataType}")


def _may_be_non_text(text_fields: list[T.StructField]) -> Column:
    # A lone surrogate escape becomes a question mark in text; only the check of JSON types sees it.
    escaped = F.contains(F.col("value").cast("string"), F.lit("\\u"))
    ambiguous = (
        F.ascii(_parsed(field)).isin(_FIRST_BYTES_OF_NON_TEXT) & ~_is_surely_text(field)
        for field in text_fields
    )
    return reduce(lambda a, b: a | b, ambiguous, escaped)


def _is_surely_text(field: T.StructField) -> Column:
    """Tell whether the value has the field's name once, directly followed by its text in quotes.

    Half of all ids begin like a number, so they must not all need the check of JSON types. If the
    name in quotes is something else than the field's name, then it is there twice or the field is
    absent.
    """
    value, name = F.col("value").cast("string"), f'"{field.name}"'
    once = F.octet_length(F.substring_index(value, name, 2)) == F.octet_length(value)
    return once & F.contains(value, F.concat(F.lit(f'{name}:"'), _parsed(field), F.lit('"')))


def _may_be_quoted(money_fields: list[T.StructField]) -> Column:
    """Tell whether an amount may be quoted text; an escaped field name needs the check anyway."""
    value = F.col("value").cast("string")
    quoted = (
        _parsed(field).isNotNull() & value.rlike(rf'"{field.name}"\s*:\s*"')
        for field in money_fields
    )
    return reduce(lambda a, b: a | b, quoted, F.lit(False))


def _text_checks(
    text_fields: list[T.StructField], money_fields: list[T.StructField]
) -> list[_Check]:
    """Return the checks of JSON types: a text field is text, and an amount is not."""
    variants = _record(
        _envelope(", ".join(f"{field.name} VARIANT" for field in [*text_fields, *money_fields]))
    )
    checks = []
    for field in text_fields:
        is_text = F.schema_of_variant(variants.getField(field.name)).eqNullSafe("STRING")
        passes = _parsed(field).isNull() | is_text if field.nullable else is_text
        checks.append(_Check(passes, f"{field.name} is not text"))
    for field in money_fields:
        kind = F.schema_of_variant(variants.getField(field.name))
        # A DECIMAL such as DECIMAL(4,2), a BIGINT or a DOUBLE, by how the number is written.
        passes = _parsed(field).isNull() | kind.rlike("^(DECIMAL|BIGINT|DOUBLE)")
        checks.append(_Check(passes, f"{field.name} is not a number"))
    return checks
