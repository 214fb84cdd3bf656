"""The transcript in docs/alerting.md is what the jobs and the commands print."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from events.records import RackReading
from events.topics import ALERTS
from events.triggers import Trigger
from spark_jobs.rules.overheating.job import JOB
from spark_jobs.runtime.parsing import parse, readable
from tests.builders import reading
from tests.spark.kafka_tables import readings_table
from tests.support import ROOT, Kafka, run
from tests.unit.test_alerting_channels import Receiver, serving

pytestmark = pytest.mark.full

TRANSCRIPT = re.findall(
    r"^\$ python -m (.+)\n((?:(?!```|\$ ).*\n)*)",
    (ROOT / "docs" / "alerting.md").read_text(encoding="utf-8").split("```")[1],
    re.MULTILINE,
)
"""Each command of the first example, with its output."""

RACKS = {
    "rack-0007": ("berlin", "18:33"),
    "rack-0031": ("berlin", "18:36"),
    "rack-0044": ("hamburg", "18:37"),
}
"""The site of each rack that overheats, and the minute of its readings."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return a webhook's receiver."""
    with serving(Receiver()) as receiver:
        yield receiver


def readings(rack_id: str) -> list[RackReading]:
    """Return the three readings that make a rack overheat, as the docs show them."""
    site_id, minute = RACKS[rack_id]
    number = int(rack_id[-4:])
    return [
        reading(
            number * 100 + index,
            100.7 + 0.3 * index,
            rack_id,
            event_id=f"3f9c01d2-{number}{index}",
            event_time=f"2026-11-21T{minute}:{7 + 10 * index:02d}.537Z",
            site_id=site_id,
        )
        for index in range(3)
    ]


def alerts_of(spark: SparkSession, history: list[RackReading]) -> list[tuple[str, bytes]]:
    """Return key and value of the alerts that the job overheating writes."""
    plan = JOB.plans[Trigger.REAL_TIME]
    records = readable(parse(readings_table(spark, history), RackReading, in_jvm=True))
    rows = plan.records(records, JOB.options()).collect()
    return [(row["key"], row["value"].encode()) for row in rows]


def without_times(text: str) -> list[list[str]]:
    """Return each line's columns, with durations and times of the commands replaced."""
    text = re.sub(r"\b(\d+[dhms])+\b", "DURATION", text)
    text = re.sub(r"(until |  )(?!2026-11-21T18:3[367]:[0-2]7)\d{4}-\S+Z", r"\1TIME", text)
    return [re.split(r" {2,}", line.strip()) for line in text.strip().splitlines()]


def test_the_documented_transcript_is_what_the_programs_print(
    spark: SparkSession, topics: Kafka, receiver: Receiver, tmp_path: Path
) -> None:
    env = topics.env | {
        "ALERTING_DATABASE": str(tmp_path / "db"),
        "ALERTING_WEBHOOK_URL": receiver.url,
        "LOGNAME": "ada",
    }

    def read_topics() -> None:
        done = run("alerting", "run", "--idle-exit=1", "--group-wait=0", env=env)
        assert done.returncode == 0, done.stderr

    alerts = alerts_of(spark, [each for rack_id in RACKS for each in readings(rack_id)])
    topics.send(ALERTS, alerts)
    topics.send(ALERTS, [(key, value) for key, value in alerts if key == "rack-0007"])
    assert len(TRANSCRIPT) >= 5
    for command, expected in TRANSCRIPT:
        if command == "alerting list":  # the alerts, later the commands of `ack` and `silence`
            read_topics()
        printed = run(*command.split(), env=env)
        assert without_times(printed.stdout) == without_times(expected), printed
