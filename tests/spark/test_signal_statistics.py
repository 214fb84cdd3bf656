"""Windows of signal strengths: random histories against the oracle, late readings, and records."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from events.records import RackReading
from events.times import to_ms, to_text
from events.triggers import Trigger
from producer.expected.oracles.signal_statistics import signal_statistics as statistics_of
from spark_jobs.runtime.parsing import readable
from spark_jobs.telemetry.signal_statistics import JOB, Options, signal_statistics
from tests.builders import T0, reading
from tests.spark.event_tables import clock, events
from tests.spark.file_streams import run_stream

Row = dict[str, Any]
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
# A rack may have the name of a device type.
RACKS = {"rack-1": "gpu-server", "rack-2": "gpu-server", "gpu-server": "storage"}
COLUMNS = "event_time string, device_type string, rack_id string, signal_strength double"


class Arrival(NamedTuple):
    """A reading with its append time."""

    reading: RackReading
    append_ms: int


def history(seed: int, batches: int = 3) -> tuple[list[list[Arrival]], list[RackReading]]:
    """Return the batches of a topic, and the readings that count; copies are several.

    Half of the readings are late, by at most nine minutes. Some are more than five minutes ahead of
    their append time. Some of the last batch are beyond the watermark.
    """
    random = Random(seed)
    topic: list[list[Arrival]] = [[] for _ in range(batches)]
    counted: list[RackReading] = []
    for number in range(100 * batches):
        append_ms, batch = T0 + 1000 * number, number // 100
        kind = random.choices(["on time", "late", "future", "too late"], [8, 8, 1, 1])[0]
        ahead_ms = {
            "on time": 0,
            "late": -random.randrange(9 * MINUTE_MS),
            "future": 5 * MINUTE_MS + random.choice([1, HOUR_MS]),
            "too late": -random.randrange(20, 60) * MINUTE_MS if batch == batches - 1 else 0,
        }[kind]
        rack_id = random.choice(list(RACKS))
        one = reading(
            number,
            rack=rack_id,
            device_type=RACKS[rack_id],
            event_time=to_text(append_ms + ahead_ms),
            signal_strength=random.randrange(1001) / 1000,
        )
        copies = random.choice([1, 1, 1, 2, 3])
        topic[batch] += [Arrival(one, append_ms)] * copies
        if ahead_ms in range(-10 * MINUTE_MS, 1):
            counted += [one] * copies
    for arrivals in topic:
        random.shuffle(arrivals)
    return topic, counted


def as_parsed(spark: SparkSession, arrivals: Sequence[Arrival]) -> DataFrame:
    """Return readings as the parser does."""
    readings = [one.reading for one in arrivals]
    event_ms = [to_ms(one.event_time) for one in readings]
    columns = {
        "rack_id": [one.rack_id for one in readings],
        "device_type": [one.device_type for one in readings],
        "signal_strength": [one.signal_strength for one in readings],
        "event_time": [datetime.fromtimestamp(at / 1000, UTC) for at in event_ms],
        "timestamp": [datetime.fromtimestamp(one.append_ms / 1000, UTC) for one in arrivals],
        "error": pa.nulls(len(arrivals), pa.string()),
    }
    return spark.createDataFrame(pa.table(columns))


def records_of(
    spark: SparkSession, folder: Path, topic: Sequence[Sequence[Arrival]], output_mode: Any
) -> list[tuple[str, Row]]:
    """Return keys and values that the job writes, in their order."""
    plan, options = JOB.plans[Trigger.AVAILABLE_NOW], Options(output_mode=output_mode)
    found = run_stream(
        spark,
        folder,
        [as_parsed(spark, arrivals) for arrivals in topic],
        lambda rows: plan.records(readable(rows, by_event_time=JOB.by_event_time), options),
        plan.output_mode(options),
    )
    return [(row["key"], json.loads(row["value"])) for batch in found for row in batch]


def by_key(rows: Sequence[Row]) -> dict[str, Row]:
    """Return the oracle's rows by key; an average may differ in its last digits."""
    mean, keyed = "signal_strength_avg", {}
    for row in rows:
        group = "device_type" if row["device_type"] is not None else "rack_id"
        key = f"{row['window_start']}|{row['window_end']}|{group}|{row[group]}"
        keyed[key] = row | {mean: pytest.approx(row[mean], rel=1e-12)}
    assert len(keyed) == len(rows) > 50
    return keyed


def test_in_update_mode_the_last_record_of_each_key_is_the_oracles_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic, counted = history(1)
    records = records_of(spark, tmp_path, topic, "update")
    assert len(records) > len(dict(records)), "no window was written again"
    assert dict(records) == by_key(statistics_of(counted))


def test_in_append_mode_each_closed_window_is_written_once_with_the_oracles_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    topic, counted = history(2)
    last_ms = T0 + HOUR_MS
    last = Arrival(reading(10**6, event_time=to_text(last_ms)), last_ms)
    records = records_of(spark, tmp_path, [*topic, [last]], "append")
    assert len(records) == len(dict(records))
    assert dict(records) == by_key(statistics_of(counted)), "all are closed but that of the last"


def test_a_late_reading_counts_only_while_its_window_is_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    def rows(*strengths: tuple[str, float]) -> DataFrame:
        return events(spark, COLUMNS, [(at, "gpu", "r", strength) for at, strength in strengths])

    on_time = rows(("10:30:30", 0.5))
    # The watermark is 10:20:30: it closes the windows that end by 10:20.
    late = rows(("10:19:59.999", 0.1), ("10:20:00", 0.2), ("10:20:40", 0.4))
    _, _, third, *_ = run_stream(
        spark,
        tmp_path,
        [on_time, on_time, late],
        lambda readings: signal_statistics(readings, "1 minute", "10 minutes"),
    )
    found = {(clock(row["window_start"]), row["rack_id"], row["reading_count"]) for row in third}
    assert found == {("10:20:00", None, 2), ("10:20:00", "r", 2)}
    assert {round(row["signal_strength_avg"], 9) for row in third} == {0.3}


def test_a_record_has_the_key_and_the_fields_of_the_contract(spark: SparkSession) -> None:
    rows = [("10:01:00", "gpu", "r|1", 0.25), ("10:01:59.999", "gpu", "r|1", 0.75)]
    table = events(spark, COLUMNS, rows)
    for trigger, plan in JOB.plans.items():
        found = {row["key"]: row["value"] for row in plan.records(table, Options()).collect()}
        window = "2026-11-18T10:01:00.000Z|2026-11-18T10:02:00.000Z"
        assert set(found) == {f"{window}|device_type|gpu", f"{window}|rack_id|r|1"}, trigger
        assert list(json.loads(found[f"{window}|rack_id|r|1"]).items()) == [
            ("window_start", "2026-11-18T10:01:00.000Z"),
            ("window_end", "2026-11-18T10:02:00.000Z"),
            ("device_type", None),
            ("rack_id", "r|1"),
            ("reading_count", 2),
            ("signal_strength_min", 0.25),
            ("signal_strength_max", 0.75),
            ("signal_strength_avg", 0.5),
        ]


def test_an_option_sets_the_length_of_windows(spark: SparkSession) -> None:
    rows = [("10:01:00", "gpu", "r", 0.25), ("10:59:00", "gpu", "r", 0.75)]
    plan = JOB.plans[Trigger.AVAILABLE_NOW]
    found = plan.records(events(spark, COLUMNS, rows), Options(window="1 hour")).collect()
    assert [json.loads(row["value"])["reading_count"] for row in found] == [2, 2]
