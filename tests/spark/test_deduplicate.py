"""Repeats: removed within the watermark or for ever, by id alone, and the first record goes on as it came."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from events.records import encode
from spark_jobs.deduplicate import JOB, distinct_events
from spark_jobs.job import JobOptions
from spark_jobs.triggers import Trigger
from tests.spark.histories import reading
from tests.spark.streams import run_stream
from tests.spark.tables import kafka_table
from tests.spark.times import clock, events

# The lesson's: a guid, and when; a copy comes with the same time, and one with another.
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


def test_a_copy_with_another_event_time_is_removed_by_the_job_and_survives_when_time_is_part_of_the_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    def by_both(rows: DataFrame) -> DataFrame:
        return rows.withWatermark("event_time", "10 seconds").dropDuplicates(["event_id", "event_time"])

    first, second, *_ = run(spark, tmp_path / "job", LESSON, lambda rows: distinct_events(rows, "10 seconds"))
    assert (first, second) == ([("a", "10:00:00"), ("b", "10:00:01")], [("c", "10:00:02")])
    first, second, *_ = run(spark, tmp_path / "both", LESSON, by_both)
    assert (first, second) == ([("a", "10:00:00"), ("b", "10:00:01")], [("a", "10:00:05"), ("c", "10:00:02")])


LATE = [[("a", "10:00:00")], [("b", "10:05:00")], [("c", "10:05:00")], [("a", "10:00:00"), ("d", "10:00:01")]]


def test_with_a_watermark_what_is_too_late_is_dropped_whether_it_is_a_repeat_or_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = run(spark, tmp_path, LATE, lambda rows: distinct_events(rows, "10 seconds"))
    assert [row for batch in found for row in batch] == [
        ("a", "10:00:00"),
        ("b", "10:05:00"),
        ("c", "10:05:00"),
    ]


def test_without_one_every_event_goes_on_once_however_late(spark: SparkSession, tmp_path: Path) -> None:
    found = run(spark, tmp_path, LATE, lambda rows: distinct_events(rows, None))
    assert [row for batch in found for row in batch] == [
        ("a", "10:00:00"),
        ("b", "10:05:00"),
        ("c", "10:05:00"),
        ("d", "10:00:01"),
    ]


def test_key_and_value_go_on_byte_for_byte(spark: SparkSession, tmp_path: Path) -> None:
    value = b" " + encode(reading(1)) + b"\n"
    raw = events(spark, "event_id string, event_time string", [("e", "10:00:00")]).crossJoin(
        kafka_table(spark, [value], [b"\xff\x00key"]).select("key", "value")
    )
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    for keep in ("for-ever", "expiring"):
        options = JOB.with_defaults(JobOptions(keep=keep))
        first, *_ = run_stream(
            spark, tmp_path / keep, [raw], lambda rows, o=options: plan.records(rows, o), "append"
        )
        assert [(bytes(row["key"]), bytes(row["value"])) for row in first] == [(b"\xff\x00key", value)]
