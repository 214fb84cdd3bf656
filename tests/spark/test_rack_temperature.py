"""Windows of temperatures: example values, the edges of windows, late readings and records."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.runtime.triggers import Trigger
from spark_jobs.telemetry.rack_temperature import JOB, Options, rack_temperatures
from tests.spark.file_streams import run_stream

GOLDEN = [
    ("rack1", "08:01:01", 99.5),
    ("rack1", "08:06:02", 100.5),
    ("rack1", "08:11:03", 101.0),
    ("rack1", "08:16:04", 102.0),
    ("rack2", "08:01:02", 99.5),
    ("rack2", "08:06:04", 105.5),
    ("rack2", "08:11:06", 104.0),
    ("rack2", "08:16:08", 108.0),
]
# window start, scope, count, average, minimum, maximum
GOLDEN_WINDOWS = [
    ("07:55", "fleet", 2, 99.5, 99.5, 99.5),
    ("07:55", "rack1", 1, 99.5, 99.5, 99.5),
    ("07:55", "rack2", 1, 99.5, 99.5, 99.5),
    ("08:00", "fleet", 4, 101.25, 99.5, 105.5),
    ("08:00", "rack1", 2, 100.0, 99.5, 100.5),
    ("08:00", "rack2", 2, 102.5, 99.5, 105.5),
    ("08:05", "fleet", 4, 102.75, 100.5, 105.5),
    ("08:05", "rack1", 2, 100.75, 100.5, 101.0),
    ("08:05", "rack2", 2, 104.75, 104.0, 105.5),
    ("08:10", "fleet", 4, 103.75, 101.0, 108.0),
    ("08:10", "rack1", 2, 101.5, 101.0, 102.0),
    ("08:10", "rack2", 2, 106.0, 104.0, 108.0),
    ("08:15", "fleet", 2, 105.0, 102.0, 108.0),
    ("08:15", "rack1", 1, 102.0, 102.0, 102.0),
    ("08:15", "rack2", 1, 108.0, 108.0, 108.0),
]
Window = tuple[str, str, int, float, float, float]


def readings(spark: SparkSession, rows: list[tuple[str, str, float]]) -> DataFrame:
    """Return readings of 2 June 2017 as columns."""
    table = spark.createDataFrame(rows, "rack_id string, at string, temperature_c double")
    at = F.to_timestamp(F.concat(F.lit("2017-06-02T"), "at", F.lit("Z")))
    return table.select("rack_id", at.alias("event_time"), "temperature_c")


def windows(rows: DataFrame) -> DataFrame:
    """Return the windows under test, with their starts as text."""
    found = rack_temperatures(rows, "10 minutes", "5 minutes", "10 minutes")
    minute = F.date_format("window_start", "HH:mm")
    ten = (F.unix_seconds("window_end") - F.unix_seconds("window_start")) == 600
    return (
        found.withColumn("start", minute)
        .withColumn("ten_minutes", ten)
        .drop("window_start", "window_end")
    )


def as_window(row: dict[str, Any]) -> Window:
    assert row["ten_minutes"]
    average, least, most = (row[f"temperature_c_{name}"] for name in ("avg", "min", "max"))
    return row["start"], row["scope"], row["reading_count"], average, least, most


def test_update_mode_gives_the_expected_windows(spark: SparkSession, tmp_path: Path) -> None:
    rows = readings(spark, GOLDEN)
    # The second batch returns changed windows only; a later row replaces the earlier one.
    early = rows.where(F.col("event_time") < "2017-06-02 08:10:00")
    late = rows.where(F.col("event_time") >= "2017-06-02 08:10:00")
    first, second, *rest = run_stream(spark, tmp_path, [early, late], windows)
    assert not any(rest)
    latest = {window[:2]: window for window in map(as_window, [*first, *second])}
    assert sorted(latest.values()) == GOLDEN_WINDOWS
    assert ("08:05", "fleet", 2, 103.0, 100.5, 105.5) in map(as_window, first)
    assert {row["start"] for row in second} == {"08:05", "08:10", "08:15"}


def test_append_mode_keeps_the_last_windows_open_until_a_later_reading(
    spark: SparkSession, tmp_path: Path
) -> None:
    # 08:16:08 less ten minutes closes what ends by 08:06:08.
    closed = run_stream(spark, tmp_path / "open", [readings(spark, GOLDEN)], windows, "append")
    assert sorted(as_window(row) for batch in closed for row in batch) == GOLDEN_WINDOWS[:3]
    # 08:35 less ten minutes closes what ends by 08:25.
    later = readings(spark, [("rack1", "08:35:00", 90.0)])
    closed = run_stream(
        spark, tmp_path / "closed", [readings(spark, GOLDEN), later], windows, "append"
    )
    assert sorted(as_window(row) for batch in closed for row in batch) == GOLDEN_WINDOWS


def test_a_late_reading_counts_only_in_windows_that_are_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    on_time = readings(spark, [("rack1", "08:30:00", 100.0)])
    # The watermark is 08:20: the next batch closes windows, the one after drops late readings.
    late = readings(
        spark,
        [("rack1", "08:12:00", 50.0), ("rack1", "08:17:00", 60.0), ("rack1", "08:21:00", 70.0)],
    )
    _, _, third, *_ = run_stream(spark, tmp_path, [on_time, on_time, late], windows)
    assert sorted(as_window(row) for row in third if row["scope"] == "rack1") == [
        ("08:15", "rack1", 2, 65.0, 60.0, 70.0),
        ("08:20", "rack1", 1, 70.0, 70.0, 70.0),
    ]


def test_a_window_includes_its_start_and_excludes_its_end(spark: SparkSession) -> None:
    edge = readings(spark, [("rack1", "08:05:00", 100.0), ("rack1", "08:04:59.999", 90.0)])
    found = sorted(as_window(row.asDict()) for row in windows(edge).collect())
    assert [window for window in found if window[1] == "rack1"] == [
        ("07:55", "rack1", 1, 90.0, 90.0, 90.0),
        ("08:00", "rack1", 2, 95.0, 90.0, 100.0),
        ("08:05", "rack1", 1, 100.0, 100.0, 100.0),
    ]


def test_a_reading_sent_twice_counts_twice(spark: SparkSession) -> None:
    twice = readings(spark, [("rack1", "08:01:00", 90.0)] * 2 + [("rack1", "08:01:30", 120.0)])
    counts = {
        (row["scope"], row["reading_count"], row["temperature_c_avg"])
        for row in windows(twice).collect()
    }
    assert counts == {("fleet", 3, 100.0), ("rack1", 3, 100.0)}


def test_a_record_has_the_key_and_the_fields_of_the_contract(
    spark: SparkSession,
) -> None:
    rows = readings(spark, [("rack|1", "08:01:00", 99.5)])
    records = JOB.plans[Trigger.REAL_TIME].records(rows, Options()).collect()
    assert sorted(row["key"] for row in records) == [
        f"{scope}|2017-06-02T{start}.000Z|2017-06-02T{end}.000Z"
        for scope in ("fleet", "rack|1")
        for start, end in [("07:55:00", "08:05:00"), ("08:00:00", "08:10:00")]
    ]
    (value,) = (row["value"] for row in records if row["key"].startswith("rack|1|2017-06-02T07:55"))
    assert list(json.loads(value).items()) == [
        ("scope", "rack|1"),
        ("window_start", "2017-06-02T07:55:00.000Z"),
        ("window_end", "2017-06-02T08:05:00.000Z"),
        ("reading_count", 1),
        ("temperature_c_avg", 99.5),
        ("temperature_c_min", 99.5),
        ("temperature_c_max", 99.5),
    ]


def test_options_set_the_length_and_the_slide_of_windows(spark: SparkSession) -> None:
    rows = readings(spark, GOLDEN)
    records = (
        JOB.plans[Trigger.AVAILABLE_NOW]
        .records(rows, Options(window="1 hour", slide="1 hour"))
        .collect()
    )
    values = [json.loads(row["value"]) for row in records]
    assert {
        (value["scope"], value["window_start"], value["reading_count"]) for value in values
    } == {
        ("fleet", "2017-06-02T08:00:00.000Z", 8),
        ("rack1", "2017-06-02T08:00:00.000Z", 4),
        ("rack2", "2017-06-02T08:00:00.000Z", 4),
    }
