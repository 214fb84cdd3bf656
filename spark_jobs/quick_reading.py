"""Good records read in Python, by micro-batches; Real-time Mode, which counts milliseconds, stays in the JVM.

`parsing` spends some 8 µs of processor time on a record, this 2. It takes no decision that `parsing` could take
otherwise: what it calls good is good there too, with the same fields (the tests hold it to that on spoilt records),
and everything else is doubtful and goes through `parsing`, whose verdict and words count.
"""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Raw
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_type

from events.records import MAX_ID_BYTES, UserAction
from events.spark_schemas import choices, is_id, spark_schema
from spark_jobs.kafka import RECORD
from spark_jobs.parsing import parse
from spark_jobs.usual_form import INSTANT, MONEY

LONGEST_BYTES = 1000
"""A longer value is doubtful: the JVM's parser has bounds for nesting and digits that this one lacks."""

_INSTANT, _MONEY = f"^{INSTANT}$", f"^{MONEY}$"

_WIRE_TYPES: dict[type[T.DataType], Any] = {
    T.StringType: str,
    T.TimestampType: str,
    T.LongType: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)],
    T.DoubleType: float,
    T.DecimalType: Raw,
}


def parse_quickly(
    raw: DataFrame, record: type[msgspec.Struct], fields: tuple[str, ...] | None = None
) -> DataFrame:
    """Return what `parsing.parse` returns, sooner. Rows stay in their order.

    With `fields` named, good records have only those of the record's: what a plan does not need is not carried back
    from Python.
    """
    if not can_judge(record):
        return parse(raw, record)
    schema = spark_schema(record)
    quick = T.StructType([field for field in schema if fields is None or field.name in fields])

    def read(values: Iterator[pa.Array]) -> Iterator[pa.Array]:
        reader = QuickReader(record)
        for batch in values:
            good, columns = reader.read(batch, quick.names)
            # The good ones were found one after the other.
            rows = pc.if_else(good, pc.subtract(pc.cumulative_sum(good.cast(pa.int64())), 1), None)
            yield structs(rows, columns, list(_arrow(quick)))

    rows = raw.select(*RECORD.names).withColumn("quick", called_once(read, quick)(short_value()))
    good = F.col("quick").isNotNull()
    doubtful = rows.withColumn("whole", F.col("value")).withColumn("value", F.when(~good, F.col("value")))
    parsed = parse(doubtful, record, keep=("whole", "quick"))
    return parsed.select(
        "key", F.col("whole").alias("value"), "partition", "offset", "timestamp",
        *[F.when(good, F.col("quick")[name]).otherwise(F.col(name)).alias(name) for name in quick.names],
        F.when(~good, F.col("error")).alias("error"),
    )  # fmt: skip


def short_value() -> Column:
    """Return the column `value` where Python reads it: a batch of ten thousand stays within ten megabytes."""
    return F.when(F.octet_length("value") <= LONGEST_BYTES, F.col("value"))


def called_once(function: Callable[..., Iterator[pa.Array]], returns: T.StructType) -> Callable[..., Column]:
    """Return a function over columns out of one over batches of Arrow arrays, to use in one projection.

    Spark may copy what is sure to come to the same into each place that uses it, and so do the work twice.
    """
    return F.arrow_udf(function, returns).asNondeterministic()  # type: ignore[attr-defined, no-any-return] # not in its types yet


def structs(rows: pa.Array, found: pa.RecordBatch, fields: list[pa.Field]) -> pa.StructArray:
    """Return the `rows` of what was found, by their numbers, as structs of the fields; null where a number is null."""
    columns = [found[field.name].take(rows) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=rows.is_null())


def can_judge(record: type[msgspec.Struct]) -> bool:
    """Tell whether there is a quick reader for this kind of record."""
    return all(type(field.dataType) in _WIRE_TYPES for field in spark_schema(record).fields)


class QuickReader:
    """Reads the values of one kind of record."""

    def __init__(self, record: type[msgspec.Struct]) -> None:
        fields = spark_schema(record).fields
        # Without the record's own patterns: a column is checked faster than its values.
        required = [(field.name, _wire_type(record, field)) for field in fields if not field.nullable]
        optional = [
            (field.name, Raw, Raw(b"")) if isinstance(field.dataType, T.DecimalType)
            else (field.name, _wire_type(record, field) | None, None)
            for field in fields if field.nullable
        ]  # fmt: skip
        plain = msgspec.defstruct(record.__name__, [*required, *optional], gc=False)
        self._decode = msgspec.json.Decoder(plain).decode
        self._types = {field.name: field.dataType for field in fields}
        self._priced = record is UserAction
        self._checked = [
            name
            for name, kind in self._types.items()
            if isinstance(kind, T.TimestampType | T.DecimalType) or is_id(record, name)
        ]

    def read(self, values: pa.Array, names: list[str]) -> tuple[pa.Array, pa.RecordBatch]:
        """Return for each value (bytes, may be null) whether it is surely good, and those fields of the good ones."""
        records = [self._record(value) for value in values.to_pylist()]
        decoded = pa.array([record is not None for record in records], pa.bool_())
        there = [record for record in records if record is not None]
        needed = {*names, *self._checked, *(("action",) if self._priced else ())}
        columns = {name: self._column(there, name) for name in needed}
        sound = pa.array([True] * len(there), pa.bool_())
        for name in self._checked:
            sound = pc.and_(sound, self._is_sound(columns[name], self._types[name]))
        if self._priced:
            has_price = pc.or_(pc.not_equal(columns["action"], "purchase"), columns["amount"].is_valid())
            sound = pc.and_(sound, has_price)
        good = pc.replace_with_mask(decoded, decoded, sound)
        finished = {name: columns[name].filter(sound).cast(_arrow(self._types[name])) for name in names}
        return good, pa.record_batch(finished)

    def _record(self, value: bytes | None) -> Any:
        if value is None or len(value) > LONGEST_BYTES:
            return None
        try:
            # As text: the decoder would skip wrong UTF-8 in fields that it does not know.
            return self._decode(value.decode())
        except (ValueError, msgspec.DecodeError, RecursionError):
            return None

    def _column(self, records: list[Any], name: str) -> pa.Array:
        """Return a field as it is on the wire: times and money as text."""
        values = map(attrgetter(name), records)
        match self._types[name]:
            case T.DecimalType():
                texts = pa.array(list(map(bytes, values)), pa.binary())
                return pc.if_else(pc.equal(pc.binary_length(texts), 0), None, texts.cast(pa.string()))
            case T.TimestampType():
                return pa.array(list(values), pa.string())
            case kind:
                return pa.array(list(values), _arrow(kind))

    def _is_sound(self, column: pa.Array, kind: T.DataType) -> pa.Array:
        match kind:
            case T.TimestampType():
                return pc.fill_null(pc.match_substring_regex(column, _INSTANT), fill_value=True)
            case T.DecimalType():
                return pc.fill_null(pc.match_substring_regex(column, _MONEY), fill_value=True)
            case _:
                return pc.fill_null(pc.less_equal(pc.binary_length(column), MAX_ID_BYTES), fill_value=True)


def _wire_type(record: type[msgspec.Struct], field: T.StructField) -> Any:
    listed = choices(record, field.name)
    return Literal[listed] if listed else _WIRE_TYPES[type(field.dataType)]


def _arrow(kind: T.DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")
