"""The queries that jobs start: the topic that each writes, its checkpoint, its batches."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.settings import Settings
from events.topics import Topic
from spark_jobs.registry import JOBS
from spark_jobs.runtime import kafka_io, runner
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.kafka_io import QueryOptions
from spark_jobs.runtime.triggers import Trigger
from spark_jobs.storage.dead_letters import reporting_jobs
from tests.spark.kafka_tables import kafka_table


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [(Trigger.REAL_TIME, (300, 270)), (Trigger.MICRO_BATCH, (0, 2))],
    ids=str,
)
def test_a_job_and_its_dead_letters_have_a_query_and_a_checkpoint_each(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trigger: Trigger,
    seconds: tuple[int, int],
) -> None:
    started: dict[str, tuple[str, QueryOptions]] = {}

    def note(records: DataFrame, _: Settings, topic: Topic, query: QueryOptions) -> None:
        assert records.columns == ["key", "value"]
        started[query.name] = topic.name, query

    monkeypatch.setattr(kafka_io, "read_topic", lambda *_, **__: kafka_table(spark, [b"{}"]))
    monkeypatch.setattr(kafka_io, "write_topic", note)
    options = runner.RunOptions(checkpoint_root=str(tmp_path))
    job = JOBS["rack_temperature"]
    temperature = ConfiguredJob(job, job.options(), trigger)
    for one in (temperature, *reporting_jobs([temperature])):
        for prepared in runner.prepare(spark, one, Settings(), options):
            prepared.start()
    found = {name: (topic, query.batch) for name, (topic, query) in started.items()}
    results_s, dead_letters_s = seconds
    assert found == {
        "rack_temperature": ("rack-temperature", timedelta(seconds=results_s)),
        "dead_letters-rack-readings": ("dead-letters", timedelta(seconds=dead_letters_s)),
    }
    _, query = started["dead_letters-rack-readings"]
    assert query.checkpoint == f"{tmp_path}/dead_letters-rack-readings/records/v1/-", (
        "the same for every trigger"
    )


def test_only_dead_letters_read_a_topic_with_low_priority_and_only_in_real_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[tuple[str, bool]] = []

    def note(*_: object, low_priority: bool) -> DataFrame:
        readers.append((name, low_priority))
        return kafka_table(spark, [b"{}"])

    monkeypatch.setattr(kafka_io, "read_topic", note)
    options = runner.RunOptions(checkpoint_root=str(tmp_path))
    for trigger in (Trigger.REAL_TIME, Trigger.MICRO_BATCH):
        weak = ConfiguredJob(JOBS["weak_signal"], JOBS["weak_signal"].options(), trigger)
        for one in (weak, *reporting_jobs([weak])):
            name = f"{one.job.name} {trigger}"
            list(runner.prepare(spark, one, Settings(), options))
    assert readers == [
        ("weak_signal real-time", False),
        ("dead_letters real-time", True),
        ("weak_signal micro-batch", False),
        ("dead_letters micro-batch", False),
    ], "each job reads its topic once"
