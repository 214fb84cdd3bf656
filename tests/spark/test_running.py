"""The queries of a job as they are started: which topic each writes, and how long its batches last."""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from events.settings import Settings
from events.topics import Topic
from spark_jobs import kafka, running
from spark_jobs.job import JobOptions
from spark_jobs.registry import JOBS
from spark_jobs.triggers import Trigger
from tests.spark.tables import kafka_table


@pytest.mark.parametrize(
    ("trigger", "seconds"), [(Trigger.REAL_TIME, (300, 270)), (Trigger.MICRO_BATCH, (0, 2))], ids=str
)
def test_the_letters_of_a_job_have_batches_of_their_own_length(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trigger: Trigger,
    seconds: tuple[int, int],
) -> None:
    started: dict[str, timedelta] = {}

    def note(records: DataFrame, _: Settings, topic: Topic, options: kafka.QueryOptions) -> None:
        assert records.columns
        started[topic.name] = options.batch

    monkeypatch.setattr(kafka, "read_topic", lambda *_, **__: kafka_table(spark, [b"{}"]))
    monkeypatch.setattr(kafka, "write_topic", note)
    options = running.RunOptions(checkpoint_root=str(tmp_path))
    running.start(spark, JOBS["rack_temperature"], trigger, Settings(), options, JobOptions())
    results, letters = seconds
    assert started == {
        "rack-temperature": timedelta(seconds=results),
        "dead-letters": timedelta(seconds=letters),
    }
