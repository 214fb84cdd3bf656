"""The rule site-outage run by Spark, over a whole topic and by the wall clock."""

import json
from pathlib import Path
from random import Random

import msgspec
import pytest
from pyspark.sql import SparkSession

from events.records import Alert, encode
from events.rules import Rules, SiteOutage
from events.times import to_text
from events.triggers import Trigger
from producer.expected.oracles.site_outage import processing_order, site_outage_alerts
from spark_jobs.rules import site_outage
from tests.builders import T0
from tests.spark.file_streams import live_stream
from tests.spark.kafka_tables import kafka_table
from tests.spark.rack_histories import alerts_by_id
from tests.spark.rule_runs import RACKS, Row, alerts_of, assert_expected, expected, table_of
from tests.support import eventually

SITE_RULES = Rules((SiteOutage(share=0.4, within_s=30, severity="critical"),))
RULES = [
    pytest.param(Rules(), id="defaults"),
    pytest.param(SITE_RULES, id="rules file", marks=pytest.mark.full),
]


@pytest.mark.parametrize("rules", RULES)
def test_site_outage_under_available_now_gives_the_alerts_of_the_oracle(
    spark: SparkSession, tmp_path: Path, rules: Rules
) -> None:
    random = Random(9)
    topic = alert_topic(random)
    found = alerts_of(
        spark, tmp_path, site_outage.JOB, [(_record(row), at) for row, at in topic], rules=rules
    )
    due = site_outage_alerts(processing_order(topic), RACKS, rules.for_rack(SiteOutage, ""))
    assert_expected(found, due, 6)


@pytest.mark.full
def test_site_outage_by_the_wall_clock_gives_the_same_alerts(
    spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(9)
    topic = alert_topic(random)
    rows = kafka_table(
        spark, [encode(_record(row)) for row, _ in topic], append_ms=[at for _, at in topic]
    )
    due, _ = expected(site_outage_alerts(processing_order(topic), RACKS, SiteOutage()))
    table = table_of(site_outage.JOB, Rules(), Trigger.MICRO_BATCH)
    with live_stream(spark, tmp_path, rows, table, "append") as stream:
        stream.add(rows)

        def alerts() -> dict[str, Row]:
            return alerts_by_id(json.loads(row["value"]) for batch in stream.found for row in batch)

        eventually(alerts, lambda found: found == due)


def alert_topic(random: Random) -> list[tuple[Row, int]]:
    """Return rack alerts that come and go, with their append times; some come twice."""
    state: dict[tuple[str, str], str] = {}
    topic: list[tuple[Row, int]] = []
    for step in range(600):
        rack = random.choice(RACKS)
        rule = random.choice(["rack-overheating", "silent-sensor", "site-outage"])
        key = (rack.rack_id, rule)
        state[key] = "NORMAL" if state.get(key) == "WARNING" else "WARNING"
        row: Row = {
            "alert_id": f"{step:032x}",
            "rule": rule,
            "subject": random.choice([rack.rack_id, rack.rack_id, rack.rack_id, "rack-unknown"]),
            "site_id": rack.site_id,
            "state": state[key],
            "severity": "error" if state[key] == "WARNING" else "info",
            "event_time": to_text(T0 + 7000 * step + random.choice([0, 0, 30_000])),
            "detected_time": to_text(T0 + 7000 * step),
            "summary": "",
            "evidence": [],
        }
        if row["subject"] == "rack-unknown":
            state[key] = "NORMAL" if state[key] == "WARNING" else "WARNING"
        append_ms = T0 + 7000 * step if step < 300 else T0 + 2_200_000 + 250 * step
        topic += [(row, append_ms) for _ in range(random.choice([1, 1, 2]))]
        if step > 20 and random.random() < 0.1:
            topic.append((random.choice(topic[-20:])[0], append_ms))
    return topic


def _record(row: Row) -> Alert:
    return msgspec.convert(row, Alert)
