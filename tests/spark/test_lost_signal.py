"""The rule lost-signal run by Spark over a topic cut into batches: the oracle's alerts."""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from events.records import RackReading
from events.rules import LostSignal, Rules
from producer.expected.oracles.lost_signal import lost_signal_alerts
from producer.expected.oracles.rule_lookup import rule_lookup
from spark_jobs.rules import lost_signal
from tests.builders import T0, reading
from tests.spark.rule_runs import (
    INVENTORY,
    RACKS,
    alerts_of,
    assert_expected,
    cuts_of,
    unknown_rack,
)


def test_lost_signal_gives_the_alerts_of_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(21)
    sent: list[tuple[int, RackReading]] = []
    for rack in (*RACKS[:5], unknown_rack()):
        spell = 1.0
        for second in range(400):
            if second % 20 == 0:
                spell = random.choice([1.0, 1.0, 0.1, 0.3, 0.0])
            if random.random() < spell:
                arrival_ms = 1000 * second + random.choice([0, 0, 0, 0, 5_000, 20_000])
                measured = reading(second, 70.0, rack.rack_id, site_id=rack.site_id)
                sent += [(arrival_ms, measured) for _ in range(random.choice([1, 1, 1, 2]))]
    # Readings from clocks that are too far ahead count nowhere, and close no window.
    sent += [
        (1000 * second, reading(10_000 + second, 70.0, "rack-0001", site_id="site-a"))
        for second in range(50, 400, 50)
    ]
    sent.sort(key=lambda one: one[0])
    topic = [(measured, T0 + arrival_ms) for arrival_ms, measured in sent]
    found = alerts_of(spark, tmp_path, lost_signal.JOB, topic, cuts_of(random, topic, 6))
    due = lost_signal_alerts(topic, rule_lookup(LostSignal, Rules(), INVENTORY))
    assert_expected(found, due, 30)


@pytest.mark.full
def test_a_watermark_a_millisecond_before_the_end_of_a_window_loses_no_alert(
    spark: SparkSession, tmp_path: Path
) -> None:
    rack = RACKS[0]
    seconds = [second for second in range(90) if second % 30 < 15 or second % 5 == 4]
    topic = [
        (reading(at, 70.0, rack.rack_id, site_id=rack.site_id, at_s=at + 0.999), T0 + 1000 * at)
        for at in seconds
    ]
    # Each batch ends with a window's last millisecond, so that the watermark is in another's.
    cuts = [index + 1 for index, second in enumerate(seconds) if second % 5 == 4]
    found = alerts_of(spark, tmp_path, lost_signal.JOB, topic, cuts)
    due = lost_signal_alerts(topic, rule_lookup(LostSignal, Rules(), INVENTORY))
    assert_expected(found, due, 3)
