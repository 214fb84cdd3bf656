"""Turn the records of a topic into what a job's plan takes."""

from pyspark.sql import DataFrame

from events.topics import Topic
from events.triggers import Trigger
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.left_out_records import used_records
from spark_jobs.runtime.parsing import parse


def parsed_records(configured: ConfiguredJob, topic: Topic, raw: DataFrame) -> DataFrame:
    """Return a topic's records as the plan asks for them, with `error` (see `parsing.parse`).

    In: Kafka's columns. They stay as they are if the plan reads them raw, or if the topic has no
    record class. Real-time Mode runs no Python, so it parses in the JVM.
    """
    plan = configured.plan
    if plan.reads_raw or topic.record is None:
        return raw
    return parse(
        raw,
        topic.record,
        in_jvm=configured.trigger is Trigger.REAL_TIME,
        fields=plan.fields,
        batches=plan.batches(raw.sparkSession, configured.options) if plan.batches else None,
        by_event_time=configured.job.by_event_time,
    )


def plan_input(configured: ConfiguredJob, topic: Topic, raw: DataFrame) -> DataFrame:
    """Return the records of a topic that the job uses, and count the others."""
    parsed = parsed_records(configured, topic, raw)
    return used_records(parsed, topic.name, by_event_time=configured.job.by_event_time)
