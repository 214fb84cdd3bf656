"""Readings in batches of a bucket of racks, without Spark."""

from random import Random
from typing import Any

import pyarrow as pa

from events.records import RackReading
from events.times import to_ms
from spark_jobs.rules.framework.bucketed_readings import (
    BUCKET_COUNT,
    POSITION,
    bucket_of,
    from_stream,
    readings_schema,
    to_bucket_batches,
)
from tests.builders import T0, reading

FIELDS = ("rack_id", "event_time", "event_id", "signal_strength")
SCHEMA = readings_schema(FIELDS)


def row(taken: RackReading, offset: int) -> dict[str, Any]:
    """Return a reading as a row of `SCHEMA`."""
    fields = {name: getattr(taken, name) for name in FIELDS}
    position = {"append_ms": T0 + offset, "partition": 0, "offset": offset}
    return fields | {"event_time": to_ms(taken.event_time) * 1000} | position


def test_bucket_batches_hold_each_reading_once_in_its_bucket() -> None:
    names = [f"rack-{Random(n).randrange(500)}" for n in range(1000)]
    rows = [row(reading(n, rack=name, at_s=n % 77), n) for n, name in enumerate(names)]
    found = to_bucket_batches(pa.RecordBatch.from_pylist(rows, SCHEMA), "event_time").to_pylist()
    opened = [(part["bucket"], part["latest"], from_stream(part["readings"])) for part in found]
    assert all(part.schema == SCHEMA for *_, part in opened)
    assert all(
        {bucket_of(name) for name in part["rack_id"].to_pylist()} == {bucket}
        for bucket, _, part in opened
    )
    assert all(max(part["event_time"].to_pylist()) == latest for _, latest, part in opened)
    together = sorted(
        (each for *_, part in opened for each in part.to_pylist()), key=lambda each: each["offset"]
    )
    assert together == rows
    assert len(found) == len({bucket_of(name) for name in names}) == BUCKET_COUNT


def test_no_reading_makes_no_bucket_batch() -> None:
    assert len(to_bucket_batches(pa.RecordBatch.from_pylist([], SCHEMA), "append_ms")) == 0


def test_the_schema_has_the_named_fields_and_the_position() -> None:
    assert SCHEMA.names == [*FIELDS, *POSITION]
    assert SCHEMA.field("event_time").type == pa.int64()
    assert SCHEMA.field("signal_strength").type == pa.float64()
