"""Windows of temperatures: example values, the edges of windows, late readings and records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.records import RackTemperature, encode
from events.spark_schemas import spark_schema
from events.triggers import Trigger
from spark_jobs.telemetry.rack_temperature import JOB, Options, rack_temperatures
from tests.builders import reading
from tests.spark.file_streams import run_stream
from tests.spark.kafka_tables import APPENDED, kafka_table, plan_output

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


def topic(spark: SparkSession, rows: list[tuple[str, str, float]]) -> DataFrame:
    """Return readings of 2 June 2017 as records of their topic, beside some that do not count.

    Every third is too long for the Arrow parser.
    """
    values = []
    for number, (rack, at, temperature_c) in enumerate(rows):
        value = encode(reading(number, temperature_c, rack, event_time=f"2017-06-02T{at}Z"))
        room = b',"room":"%s"}' % (b"x" * 1000)
        values.append(value if number % 3 else value[:-1] + room)
    future_time = f"{APPENDED:%Y-%m-%dT%H}:05:00.001Z"
    future = [encode(reading(99, 70.0, "rack1", event_time=future_time))]
    return kafka_table(spark, [b"{", *values, *future, None])


def windows(rows: DataFrame) -> DataFrame:
    """Return the windows of readings, with their starts as text."""
    return with_starts(rack_temperatures(rows, "10 minutes", "5 minutes", "10 minutes"))


def windows_by_pane(raw: DataFrame) -> DataFrame:
    """Return the windows that the plan of micro-batches writes."""
    records = plan_output(JOB, Options(), Trigger.MICRO_BATCH, raw)
    value = F.from_json("value", spark_schema(RackTemperature))
    return with_starts(records.select(F.inline(F.array(value))))


Plan = tuple[
    Callable[[SparkSession, list[tuple[str, str, float]]], DataFrame],
    Callable[[DataFrame], DataFrame],
]
in_both_plans = pytest.mark.parametrize(
    "plan", [(readings, windows), (topic, windows_by_pane)], ids=["one by one", "by pane"]
)


def with_starts(found: DataFrame) -> DataFrame:
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


@in_both_plans
def test_update_mode_gives_the_expected_windows(
    spark: SparkSession, tmp_path: Path, plan: Plan
) -> None:
    table, found = plan
    # The second batch returns changed windows only; a later row replaces the earlier one.
    early = table(spark, [row for row in GOLDEN if row[1] < "08:10"])
    late = table(spark, [row for row in GOLDEN if row[1] >= "08:10"])
    first, second, *rest = run_stream(spark, tmp_path, [early, late], found)
    assert not any(rest)
    latest = {window[:2]: window for window in map(as_window, [*first, *second])}
    assert sorted(latest.values()) == GOLDEN_WINDOWS
    assert ("08:05", "fleet", 2, 103.0, 100.5, 105.5) in map(as_window, first)
    assert {row["start"] for row in second} == {"08:05", "08:10", "08:15"}


@in_both_plans
def test_append_mode_keeps_the_last_windows_open_until_a_later_reading(
    spark: SparkSession, tmp_path: Path, plan: Plan
) -> None:
    table, found = plan
    # 08:16:08 less ten minutes closes what ends by 08:06:08.
    closed = run_stream(spark, tmp_path / "open", [table(spark, GOLDEN)], found, "append")
    assert sorted(as_window(row) for batch in closed for row in batch) == GOLDEN_WINDOWS[:3]
    # 08:35 less ten minutes closes what ends by 08:25.
    later = table(spark, [("rack1", "08:35:00", 90.0)])
    closed = run_stream(spark, tmp_path / "closed", [table(spark, GOLDEN), later], found, "append")
    assert sorted(as_window(row) for batch in closed for row in batch) == GOLDEN_WINDOWS


@in_both_plans
def test_a_late_reading_counts_only_in_windows_that_are_open(
    spark: SparkSession, tmp_path: Path, plan: Plan
) -> None:
    table, found = plan
    on_time = table(spark, [("rack1", "08:30:00", 100.0)])
    # The watermark is 08:20: the next batch closes windows, the one after drops late readings.
    late = table(
        spark,
        [("rack1", "08:12:00", 50.0), ("rack1", "08:17:00", 60.0), ("rack1", "08:21:00", 70.0)],
    )
    _, _, third, *_ = run_stream(spark, tmp_path, [on_time, on_time, late], found)
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


def test_the_readings_of_a_rack_named_like_the_fleet_count_once(spark: SparkSession) -> None:
    both = readings(spark, [("fleet", "08:01:00", 90.0), ("rack1", "08:01:00", 100.0)])
    counts = {(row["scope"], row["reading_count"]) for row in windows(both).collect()}
    assert counts == {("fleet", 2), ("rack1", 1)}


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
    def found(window: str, slide: str) -> set[tuple[str, str, int]]:
        options = Options(window=window, slide=slide)
        raw = topic(spark, GOLDEN)
        records = plan_output(JOB, options, Trigger.AVAILABLE_NOW, raw).collect()
        values = [json.loads(row["value"]) for row in records]
        return {(one["scope"], one["window_start"][11:19], one["reading_count"]) for one in values}

    by_hour = {("fleet", "08:00:00", 8), ("rack1", "08:00:00", 4), ("rack2", "08:00:00", 4)}
    assert found("1 hour", "1 hour") == by_hour
    # Panes of a minute: no longer ones fit into these windows.
    of_rack2 = {
        (start, n) for scope, start, n in found("4 minutes", "3 minutes") if scope == "rack2"
    }
    assert of_rack2 == {(f"08:{minute}:00", 1) for minute in ("00", "03", "06", "09", "15")}
