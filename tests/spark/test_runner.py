"""The queries that jobs start: the topic that each writes, its checkpoint, its batches."""

import time
from datetime import timedelta
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from events.cli import UserFacingError
from events.driver_status import PROGRAM
from events.settings import Settings
from events.status_file import Process
from events.times import now_ms, to_text
from events.topics import RACK_READINGS, Topic
from events.triggers import Trigger
from spark_jobs.clickstream.action_counts import action_counts
from spark_jobs.registry import JOBS
from spark_jobs.run_options import options_from_words
from spark_jobs.runtime import kafka_io, runner
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.kafka_io import QueryOptions, ReadOptions
from spark_jobs.runtime.status_recorder import StatusRecorder
from spark_jobs.runtime.supervisor import PreparedQuery, Supervisor
from spark_jobs.storage.dead_letters import reporting_jobs
from tests.spark.event_tables import events
from tests.spark.file_streams import live_stream, run_stream
from tests.spark.kafka_tables import kafka_table
from tests.support import Kafka


@pytest.fixture
def one_record(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs read a topic that holds the record `{}`."""
    monkeypatch.setattr(kafka_io, "read_topic", lambda *_, **__: kafka_table(spark, [b"{}"]))


@pytest.mark.usefixtures("one_record")
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


@pytest.mark.usefixtures("one_record")
def test_an_option_that_spark_refuses_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    options = runner.RunOptions(checkpoint_root=str(tmp_path))
    job = JOBS["rack_temperature"]
    configured = ConfiguredJob(
        job, options_from_words(job, ["--watermark=10 parsecs"]), Trigger.AVAILABLE_NOW
    )
    with pytest.raises(UserFacingError) as refused:
        runner._start_and_log(spark, Mock(), configured, Settings(), options, lambda _: None)
    assert str(refused.value).startswith(
        "rack_temperature did not start: [CANNOT_PARSE_INTERVAL] Unable to parse '10 parsecs'. "
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


@pytest.mark.usefixtures("one_record")
def test_a_job_with_other_options_than_its_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = runner.RunOptions(checkpoint_root=str(tmp_path))
    job = JOBS["action_counts"]

    def prepare(**changes: str) -> None:
        counts = ConfiguredJob(job, job.options(**changes), Trigger.MICRO_BATCH)
        list(runner.prepare(spark, counts, Settings(), options))

    prepare()
    prepare()
    with pytest.raises(UserFacingError, match=r"group_by was action and is now user_id") as refused:
        prepare(group_by="user_id")
    assert str(refused.value).endswith(
        "use those, or choose another --checkpoint-root to start from the beginning."
    )


@pytest.mark.usefixtures("one_record")
def test_a_new_checkpoint_does_not_continue_files_of_another_one_behind_a_url(
    spark: SparkSession, tmp_path: Path
) -> None:
    job, archive = JOBS["archive"], f"file://{tmp_path}/archive"
    chosen: dict[str, Any] = {"archive": archive}
    configured = ConfiguredJob(job, job.options(**chosen), Trigger.MICRO_BATCH)
    options = runner.RunOptions(checkpoint_root=str(tmp_path / "checkpoints"))

    def prepare() -> None:
        list(runner.prepare(spark, configured, Settings(), options))

    prepare()
    (tmp_path / "archive/landing/alerts/_spark_metadata").mkdir(parents=True)
    with pytest.raises(UserFacingError, match="was written with another checkpoint than") as error:
        prepare()
    assert str(error.value).startswith(f"{archive}/landing/alerts ")
    (checkpoint,) = (tmp_path / "checkpoints/archive-alerts").glob("*/*/*")
    (checkpoint / "offsets").mkdir()
    prepare()


@pytest.mark.full
@pytest.mark.parametrize(
    ("starting_offsets", "found"), [("earliest", {b"first", b"second"}), ("latest", set())]
)
def test_without_a_checkpoint_a_topic_is_read_from_the_offsets_asked_for(
    spark: SparkSession,
    topics: Kafka,
    tmp_path: Path,
    starting_offsets: str,
    found: set[bytes],
) -> None:
    topics.send(RACK_READINGS, [("first", b"{}"), ("second", b"{}")])
    options = ReadOptions(starting_offsets)
    read = kafka_io.read_topic(spark, Settings(), RACK_READINGS, Trigger.AVAILABLE_NOW, options)
    name = f"from_{starting_offsets}"
    writer = read.select("key").writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert {bytes(row["key"]) for row in spark.table(name).collect()} == found


@pytest.mark.full
@pytest.mark.parametrize(("tasks", "used"), [(None, 4), (1, 1), (8, 4)])
def test_a_batch_reads_a_topic_in_as_many_tasks_as_asked_for(
    spark: SparkSession, topics: Kafka, tmp_path: Path, tasks: int | None, used: int
) -> None:
    topics.send(RACK_READINGS, [(f"rack-{number}", b"{}") for number in range(40)])
    options = ReadOptions(tasks=tasks)
    read = kafka_io.read_topic(spark, Settings(), RACK_READINGS, Trigger.AVAILABLE_NOW, options)
    name = f"in_{tasks}_tasks"
    found = read.select("partition", F.spark_partition_id().alias("task"))
    writer = found.writeStream.format("memory").queryName(name)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    rows = spark.table(name).collect()
    assert len(rows) == 40
    assert len({row.partition for row in rows}) == 4
    assert len({row.task for row in rows}) == used


@pytest.mark.full
def test_a_query_that_finds_the_state_of_another_plan_ends_at_once_with_a_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An object store holds no fingerprint, so there Spark itself finds the difference."""
    rows = events(spark, "event_time string, action string", [("10:00:00", "open")])
    before, now = tmp_path / "before", tmp_path / "now"
    run_stream(
        spark,
        before,
        [rows],
        lambda table: action_counts(table, "action", "10 minutes", None, "10 minutes"),
    )
    copytree(before / "checkpoint", now / "checkpoint")
    process = Process(PROGRAM, "", to_text(now_ms()))
    recorder = StatusRecorder(process, "localhost:9092", ["counts"], str(tmp_path))
    log: list[str] = []
    supervisor = Supervisor(recorder, lambda _: [], restarts=5, log=log.append)
    with live_stream(spark, now, rows, lambda table: table.groupBy("action").count()) as live:
        prepared = PreparedQuery(
            name="counts",
            job="counts",
            trigger=Trigger.MICRO_BATCH,
            batch=timedelta(0),
            sources=(),
            topics=frozenset(),
            start=lambda: live.query,
        )
        supervisor.start(prepared)
        live.add(rows)
        deadline = time.monotonic() + 60
        with pytest.raises(UserFacingError) as ended:
            supervisor.watch(lambda: time.monotonic() > deadline)
    assert str(ended.value) == (
        "counts failed: the state in the checkpoint is that of other options or of another "
        "version: use those, or choose another --checkpoint-root to start from the beginning."
    )
    assert log == [], "it is not started again"
