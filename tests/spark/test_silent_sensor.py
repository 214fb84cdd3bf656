"""The rule silent-sensor run by Spark, by append times and by the wall clock."""

import json
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from events.records import encode
from events.rules import Rules, SilentSensor
from events.settings import Settings
from events.times import now_ms, to_ms, to_text
from events.topics import ALERTS, RACK_READINGS
from events.triggers import Trigger
from producer.expected.oracles.rule_lookup import rule_lookup
from producer.expected.oracles.silent_sensor import silent_sensor_alerts
from spark_jobs.rules import silent_sensor
from spark_jobs.runtime import runner
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.options import RuleOptions
from tests.builders import reading
from tests.spark.file_streams import live_stream
from tests.spark.kafka_tables import kafka_table
from tests.spark.rule_runs import (
    APPENDED_MS,
    INVENTORY,
    RACKS,
    Row,
    alerts_of,
    assert_expected,
    cuts_of,
    table_of,
)
from tests.support import Kafka, equal_to, eventually


def test_silent_sensor_under_available_now_gives_the_alerts_of_the_oracle(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(2)
    rules = Rules((SilentSensor(racks=("rack-0001",), after_s=100, severity="warning"),))
    topic = sorted(
        (
            (
                reading(second, 70.0, rack.rack_id),
                APPENDED_MS + 1000 * second + random.randrange(900),
            )
            for number, rack in enumerate(RACKS)
            for second in range(0, 900, 3)
            if (second // 45 + number) % 3
        ),
        key=lambda one: one[1],
    )
    found = alerts_of(spark, tmp_path, silent_sensor.JOB, topic, cuts_of(random, topic), rules)
    due = silent_sensor_alerts(
        topic,
        rule_lookup(SilentSensor, rules, INVENTORY),
        until_ms=max(append_ms for _, append_ms in topic),
    )
    assert_expected(found, due, 20)


@pytest.mark.full
def test_silent_sensor_detects_by_the_wall_clock_that_all_racks_are_silent(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = Rules((SilentSensor(racks=("rack-0000",), after_s=600), SilentSensor(after_s=1)))
    table = table_of(silent_sensor.JOB, rules, Trigger.MICRO_BATCH)
    start_ms = now_ms()
    first = kafka_table(
        spark, [encode(reading(1, 70.0, "rack-0001"))], append_ms=[start_ms], first_offset=0
    )
    with live_stream(spark, tmp_path, first, table, "append") as stream:
        stream.add(first)

        def alerts() -> list[Row]:
            return [json.loads(row["value"]) for batch in stream.found for row in batch]

        silent = eventually(alerts, lambda rows: len(rows) >= 7)
        rows = {row["subject"]: row for row in silent}
        assert sorted(rows) == [rack.rack_id for rack in RACKS[1:]]
        assert rows["rack-0001"]["event_time"] == to_text(start_ms + 1000)
        assert [each["event_id"] for each in rows["rack-0001"]["evidence"]] == ["rack-0001/1"]
        late_ms = {
            name: to_ms(row["detected_time"]) - to_ms(row["event_time"])
            for name, row in rows.items()
        }
        assert all(late >= silent_sensor.GRACE_MS for late in late_ms.values()), late_ms
        assert [row["evidence"] for name, row in rows.items() if name != "rack-0001"] == [[]] * 6
        after_ms = now_ms()
        back = kafka_table(
            spark, [encode(reading(2, 70.0, "rack-0001"))], append_ms=[after_ms], first_offset=1
        )
        stream.add(back)

        def normal_alerts() -> list[Row]:
            return [row for row in alerts() if row["state"] == "NORMAL"]

        # A slow batch may already hold the next silence too.
        (normal,) = eventually(normal_alerts, bool)
        assert normal["subject"] == "rack-0001"
        assert f"after {(after_ms - start_ms) / 1000:.1f} s" in normal["summary"]


@pytest.mark.full
def test_a_silence_is_found_after_a_restart_although_no_record_comes(
    spark: SparkSession, topics: Kafka, tmp_path: Path
) -> None:
    settings, job = Settings(), silent_sensor.JOB
    options = RuleOptions(inventory=tuple(RACKS), rules=Rules((SilentSensor(after_s=8),)))
    configured = ConfiguredJob(job, options, Trigger.MICRO_BATCH)

    def start() -> StreamingQuery:
        run = runner.RunOptions(checkpoint_root=str(tmp_path))
        (prepared,) = runner.prepare(spark, configured, settings, run)
        query: StreamingQuery = prepared.start()
        return query

    def batches(log: str) -> dict[int, Path]:
        return {int(file.name): file for file in tmp_path.rglob(f"{log}/*") if file.name.isdigit()}

    def silent() -> list[str]:
        alerts = [json.loads(record.value or b"") for record in topics.read_all(ALERTS)]
        return sorted({row["subject"] for row in alerts})

    topics.send(RACK_READINGS, [("rack-0001", encode(reading(1, 70.0, "rack-0001")))])
    query = start()
    eventually(lambda: batches("commits"), timeout_s=60)
    query.stop()
    assert silent() == [], "the query has ended before anything was silent"
    # As after a stop between two batches: one that was begun would be repeated anyway.
    for number in batches("offsets").keys() - batches("commits").keys():
        batches("offsets")[number].unlink()
    query = start()
    try:
        eventually(silent, equal_to([rack.rack_id for rack in RACKS]), timeout_s=60)
    finally:
        query.stop()
