"""Repeats are removed by id alone, within the watermark or with unbounded state.

The first record passes byte for byte.
"""

from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from events.records import encode
from events.triggers import Trigger
from spark_jobs.storage.deduplicate import JOB, Options, distinct_events
from tests.builders import reading
from tests.spark.event_tables import clock, events
from tests.spark.file_streams import run_stream
from tests.spark.kafka_tables import kafka_table

# The rows of the lesson: ids and times. One copy has the same time, and one another time.
LESSON = [
    [("a", "10:00:00"), ("a", "10:00:00"), ("b", "10:00:01")],
    [("a", "10:00:05"), ("b", "10:00:01"), ("c", "10:00:02")],
]


def run(
    spark: SparkSession, folder: Path, batches: list[list[tuple[str, str]]], table: Any
) -> list[list[tuple[str, str | None]]]:
    rows = [events(spark, "event_id string, event_time string", batch) for batch in batches]
    found = run_stream(spark, folder, rows, table, "append")
    return [sorted((row["event_id"], clock(row["event_time"])) for row in batch) for batch in found]


def test_a_copy_with_another_event_time_passes_only_if_time_is_part_of_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    def by_both(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("event_time", "10 seconds").dropDuplicates(
            ["event_id", "event_time"]
        )

    first, second, *_ = run(
        spark, tmp_path / "job", LESSON, lambda rows: distinct_events(rows, "10 seconds")
    )
    assert (first, second) == ([("a", "10:00:00"), ("b", "10:00:01")], [("c", "10:00:02")])
    first, second, *_ = run(spark, tmp_path / "both", LESSON, by_both)
    assert (first, second) == (
        [("a", "10:00:00"), ("b", "10:00:01")],
        [("a", "10:00:05"), ("c", "10:00:02")],
    )


LATE = [
    [("a", "10:00:00")],
    [("b", "10:05:00")],
    [("c", "10:05:00")],
    [("a", "10:00:00"), ("d", "10:00:01")],
]


def test_with_a_watermark_every_event_beyond_it_is_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = run(spark, tmp_path, LATE, lambda rows: distinct_events(rows, "10 seconds"))
    assert [row for batch in found for row in batch] == [
        ("a", "10:00:00"),
        ("b", "10:05:00"),
        ("c", "10:05:00"),
    ]


def test_without_a_watermark_every_event_passes_once_however_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = run(spark, tmp_path, LATE, lambda rows: distinct_events(rows, None))
    assert [row for batch in found for row in batch] == [
        ("a", "10:00:00"),
        ("b", "10:05:00"),
        ("c", "10:05:00"),
        ("d", "10:00:01"),
    ]


def test_the_first_of_equal_records_passes_byte_for_byte(
    spark: SparkSession, tmp_path: Path
) -> None:
    value = b" " + encode(reading(1)) + b"\n"
    raw = events(spark, "event_id string, event_time string", [("e", "10:00:00")]).crossJoin(
        kafka_table(spark, [value], [b"\xff\x00key"]).select("key", "value")
    )
    plan = JOB.plans[Trigger.AVAILABLE_NOW]

    def records(options: Options, rows: DataFrame) -> DataFrame:
        return plan.records(rows, options)

    for keep in ("unbounded", "ttl"):
        table = partial(records, Options(state_retention=keep))
        found = run_stream(spark, tmp_path / keep, [raw.union(raw), raw], table, "append")
        assert [(bytes(row["key"]), bytes(row["value"])) for batch in found for row in batch] == [
            (b"\xff\x00key", value)
        ]
