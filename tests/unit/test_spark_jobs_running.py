"""What a person reads when a query has ended, and how a run is set up."""

from datetime import timedelta

import pytest

from events.cli import PersonError
from events.rules import Overheating, Rules
from events.topics import AD_CLICKS, AD_IMPRESSIONS, ALL, RACK_READINGS, USER_ACTIONS
from spark_jobs.job import JobOptions
from spark_jobs.registry import JOBS
from spark_jobs.running import RunOptions, explain
from spark_jobs.triggers import Trigger


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server does not host this",
            "a topic is missing: run python -m broker topics.",
        ),
        (
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost",
            "the topic no longer holds what the checkpoint was to go on from (deleted, or kept too short): "
            "name another --checkpoint-root to begin anew.",
        ),
        (
            "java.io.IOException: No space left on device",
            "the disk is full: free some space and start again, it goes on from its checkpoint.",
        ),
        (
            "Job aborted\n=== Streaming Query ===\n\tat a.B.c(B.scala:1)\n"
            "Caused by: org.apache.spark.SparkException: Task failed\n\tat a.B.c(B.scala:2)\n"
            "Caused by: java.lang.ArithmeticException: / by zero\n\tat a.B.c(B.scala:3)",
            "java.lang.ArithmeticException: / by zero",
        ),
        ("something new\nwith details", "something new"),
    ],
)
def test_why_a_query_ended_is_one_sentence(failure: str, sentence: str) -> None:
    assert explain(RuntimeError(failure)) == sentence


def test_a_failure_that_says_nothing_is_still_explained() -> None:
    assert explain(RuntimeError("")) != ""


@pytest.mark.parametrize("name", JOBS)
def test_every_job_runs_available_now_and_says_its_default_trigger_first(name: str) -> None:
    job = JOBS[name]
    assert Trigger.AVAILABLE_NOW in job.plans
    real_time = ("overheating", "rack_temperature", "weak_signal")
    expected = Trigger.REAL_TIME if name in real_time else Trigger.MICRO_BATCH
    assert job.default_trigger is expected
    assert job.name == name


def test_a_plan_keeps_to_an_output_mode_that_it_can() -> None:
    plans = JOBS["rack_temperature"].plans
    append = JobOptions(output_mode="append")
    assert plans[Trigger.REAL_TIME].output_mode(append) == "update"
    assert plans[Trigger.MICRO_BATCH].output_mode(append) == "append"
    assert plans[Trigger.AVAILABLE_NOW].output_mode(JobOptions()) == "update"


def test_real_time_batches_are_long_and_micro_batches_follow_at_once() -> None:
    assert RunOptions().batch_for(Trigger.REAL_TIME) == timedelta(minutes=5)
    assert RunOptions().batch_for(Trigger.MICRO_BATCH) == timedelta(0)
    assert RunOptions(batch=timedelta(seconds=7)).batch_for(Trigger.REAL_TIME) == timedelta(seconds=7)
    assert RunOptions().batch_for(Trigger.MICRO_BATCH, timedelta(minutes=1)) == timedelta(minutes=1)


def test_dead_letters_are_not_urgent_and_their_batches_end_at_other_times() -> None:
    usual = RunOptions()
    assert usual.batch_for(Trigger.REAL_TIME, letters=True) == timedelta(seconds=270)
    assert usual.batch_for(Trigger.MICRO_BATCH, timedelta(minutes=1), letters=True) == timedelta(seconds=2)
    minute, shortest = RunOptions(batch=timedelta(minutes=1)), RunOptions(batch=timedelta(seconds=5))
    assert minute.batch_for(Trigger.REAL_TIME, letters=True) == timedelta(seconds=54)
    assert minute.batch_for(Trigger.MICRO_BATCH, letters=True) == timedelta(minutes=1)
    assert shortest.batch_for(Trigger.REAL_TIME, letters=True) == timedelta(seconds=5)


def test_a_job_has_defaults_of_its_own_for_what_a_person_leaves_out() -> None:
    windows, counts = JOBS["rack_temperature"], JOBS["action_counts"]
    assert windows.with_defaults(JobOptions()).slide == "5 minutes"
    assert windows.with_defaults(JobOptions(slide="1 minute")).slide == "1 minute"
    assert counts.with_defaults(JobOptions()).slide is None


def test_a_job_reads_its_topics_or_the_one_that_is_chosen() -> None:
    assert JOBS["overheating"].sources(JobOptions(topic="ad-clicks")) == (RACK_READINGS,)
    assert JOBS["ad_attribution"].sources(JobOptions()) == (AD_IMPRESSIONS, AD_CLICKS)
    assert JOBS["deduplicate"].sources(JobOptions()) == (USER_ACTIONS,)
    assert JOBS["deduplicate"].sources(JobOptions(topic="ad-clicks")) == (AD_CLICKS,)
    with pytest.raises(PersonError, match="cannot read 'alerts': choose --topic from user-actions, "):
        JOBS["deduplicate"].sources(JobOptions(topic="alerts"))


def test_the_archive_has_every_topic() -> None:
    assert [topic.name for topic in JOBS["archive"].sources(JobOptions())] == [topic.name for topic in ALL]


def test_a_file_of_rules_makes_another_job_only_of_the_kinds_in_it() -> None:
    rules = Rules((Overheating(count=2),))
    assert JOBS["weak_signal"].under(rules) is JOBS["weak_signal"]
    assert JOBS["rack_temperature"].under(rules) is JOBS["rack_temperature"]
    ruled = JOBS["overheating"].under(rules)
    assert set(ruled.plans) == {Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW}
    versions = {ruled.rules_version, JOBS["overheating"].rules_version}
    versions.add(JOBS["overheating"].under(Rules((Overheating(count=3),))).rules_version)
    assert len(versions) == 3, "other rules are other state"


def test_state_is_spread_as_asked_or_as_the_job_does_best() -> None:
    assert RunOptions().partitions_for(JOBS["overheating"]) == 4
    assert RunOptions().partitions_for(JOBS["silent_sensor"]) == 1
    assert RunOptions(state_partitions=3).partitions_for(JOBS["silent_sensor"]) == 3
