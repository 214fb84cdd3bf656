"""Derive the Spark type of an alert's evidence from the record `events.records.Evidence`."""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from events.records import Evidence
from events.spark_schemas import spark_schema

ALL_FIELDS = tuple(spark_schema(Evidence).names)
FIELDS = tuple(field.name for field in spark_schema(Evidence) if not field.nullable)
"""The fields that all rules give; a rule that decides by an optional field gives that one too."""
MEASURED = tuple(name for name in ALL_FIELDS if name not in ("event_id", "sequence", "event_time"))
"""The fields of evidence that a gateway measures."""


def evidence_type(fields: tuple[str, ...] = ALL_FIELDS) -> T.StructType:
    """Return the type in which Python state returns evidence.

    It is the record's, but every field may be null and `event_time` is in epoch microseconds.
    """
    types = {
        field.name: T.LongType() if field.name == "event_time" else field.dataType
        for field in spark_schema(Evidence)
    }
    return T.StructType([T.StructField(name, types[name]) for name in fields])


def evidence_with_timestamps() -> Column:
    """Return the column `evidence` with its event times as timestamps instead of microseconds."""
    return F.transform(
        "evidence",
        lambda reading: reading.withField("event_time", F.timestamp_micros(reading["event_time"])),
    )


def evidence_with_fields(fields: tuple[str, ...]) -> Column:
    """Return the column `evidence` with these fields alone."""
    others = [name for name in ALL_FIELDS if name not in fields]
    if not others:
        return F.col("evidence")
    return F.transform("evidence", lambda reading: reading.dropFields(*others))
