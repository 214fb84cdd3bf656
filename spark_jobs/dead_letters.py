"""Which records could not be read, and why? Topics: any input to `dead-letters`. No window, no state.

What it gets wrong: nothing is lost, but several jobs over one topic each report what they cannot read, and a kill
repeats; `source_topic`, `partition` and `offset` together say which record it is, and readers keep one.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.topics import DEAD_LETTERS
from spark_jobs.kafka import to_record

CUT_BYTES = 64 * 1024
"""A letter is cut so that it always fits below the broker's limit, whatever its value escapes to in JSON."""


def dead_letters(unreadable: DataFrame, source_topic: str) -> DataFrame:
    """Return `key` and `value` for the topic `dead-letters`.

    In: Kafka's columns and `error`, only records that could not be read; `source_topic` without prefix. The text is
    null when the value is not UTF-8; text and base64 are each cut at 64 KiB.
    """
    return unreadable.select(*_letter(source_topic))


def with_letters(parsed: DataFrame, source_topic: str) -> DataFrame:
    """Add `letter_key` and `letter`, a record's key and value for `dead-letters`; null for all that could be read.

    For plans that carry the letters through themselves, so that the topic is read and parsed only once.
    """
    key, letter = (F.when(F.col("error").isNotNull(), column) for column in _letter(source_topic))
    return parsed.withColumns({"letter_key": key, "letter": letter})


def or_letters(records: list[Column], sink: str) -> list[Column]:
    """Return `topic`, `key`, `value` and `headers`: the row's letter where it has one, else its record."""
    key, value, headers = records
    is_letter = F.col("letter").isNotNull()
    return [
        F.when(is_letter, DEAD_LETTERS.name).otherwise(sink).alias("topic"),
        F.when(is_letter, F.col("letter_key")).otherwise(key.cast("binary")).alias("key"),
        F.coalesce("letter", value).alias("value"),
        F.when(~is_letter, headers).alias("headers"),
    ]


def _letter(source_topic: str) -> list[Column]:
    value = F.col("value")
    return to_record(
        F.substring("key", 1, CUT_BYTES),
        F.lit(source_topic).alias("source_topic"),
        "partition",
        "offset",
        F.when(F.is_valid_utf8(value), _cut_text(value)).alias("value"),
        # Spark breaks it into lines of 76 characters, as for a letter of the other kind.
        F.translate(F.base64(F.substring(value, 1, CUT_BYTES // 4 * 3)), "\r\n", "").alias("value_base64"),
        F.coalesce(F.octet_length(value), F.lit(0)).alias("value_size"),
        "error",
        F.timestamp_millis(wall_clock_ms()).alias("seen_time"),
    )


def wall_clock_ms() -> Column:
    """Return the wall clock in epoch milliseconds for each row; `current_timestamp()` is when its batch began."""
    return F.expr("cast(java_method('java.lang.System', 'currentTimeMillis') as bigint)")


def _cut_text(value: Column) -> Column:
    """Cut UTF-8 bytes at the last whole character that fits: a character has at most four bytes."""
    lengths = range(CUT_BYTES, CUT_BYTES - 4, -1)
    return F.coalesce(
        *[F.try_validate_utf8(F.substring(value, 1, length).cast("string")) for length in lengths]
    )
