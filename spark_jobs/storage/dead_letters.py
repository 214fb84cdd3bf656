"""Which records are malformed, or too far in the future?

Topics: the four event topics, and `alerts` -> `dead-letters`. No window, no state.

`run` adds this job for the topics of the jobs that it starts, so each topic is reported once per
deployment. A record that cannot be read is `unreadable`. On event topics, a record more than five
minutes ahead of its append time is `future`: event-time jobs leave it out, since one wrong clock
would make all other records late. Each topic has its own query and checkpoint.

Limitations: a crash may report a record again. `source_topic`, `partition` and `offset` together
identify it, and readers keep one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal, get_args

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.constants import FUTURE_TOLERANCE
from events.records import DeadLetterReason, Event
from events.times import to_interval
from events.topics import ALERTS, DEAD_LETTERS, EVENT_TOPICS, Topic
from events.triggers import Trigger
from spark_jobs.runtime.job import ConfiguredJob, Job, Plan
from spark_jobs.runtime.kafka_io import to_record, wall_clock_ms
from spark_jobs.runtime.options import JobOptions
from spark_jobs.runtime.parsing import dead_letter_candidates, is_future, parse

REPORTED_TOPICS = (*EVENT_TOPICS, ALERTS)
"""`alerting` validates the commands itself, and the archive keeps what it cannot read."""
MAX_BYTES = 64 * 1024
"""Key, text and base64 are each cut at this size.

So a dead letter fits below the broker's limit, whatever its value escapes to in JSON.
"""
_UNREADABLE, _FUTURE = get_args(DeadLetterReason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `dead_letters`. `topics` follow from the other jobs of a run."""

    topics: tuple[Topic, ...] = REPORTED_TOPICS
    topic: Annotated[
        Literal["all", "rack-readings", "ad-impressions", "ad-clicks", "user-actions", "alerts"],
        "Report this topic alone, where no other job runs.",
    ] = "all"


def set_aside(raw: DataFrame, record: type[msgspec.Struct]) -> DataFrame:
    """Return the dead letters among a topic's records, with `reason` and `error`.

    In and out: Kafka's columns.
    """
    parsed = parse(dead_letter_candidates(raw, record), record, in_jvm=True)
    is_event = issubclass(record, Event)
    future = is_future() if is_event else F.lit(False)
    reason = F.when(F.col("error").isNotNull(), _UNREADABLE).when(future, _FUTURE)
    error = F.coalesce("error", F.lit(_future_sentence(record)))
    return parsed.withColumns({"reason": reason, "error": error}).where(F.col("reason").isNotNull())


def dead_letters(rejected: DataFrame, source_topic: str) -> DataFrame:
    """Return `key` and `value` for the topic `dead-letters`.

    In: Kafka's columns, `reason` and `error`; `source_topic` without prefix. The text is null when
    the value is not UTF-8. Text and base64 are each cut at 64 KiB.
    """
    value = F.col("value")
    return rejected.select(
        *to_record(
            F.substring("key", 1, MAX_BYTES),
            F.lit(source_topic).alias("source_topic"),
            "partition",
            "offset",
            "reason",
            F.when(F.is_valid_utf8(value), _truncated_text(value)).alias("value"),
            # Spark breaks base64 into lines of 76 characters.
            F.translate(F.base64(F.substring(value, 1, MAX_BYTES // 4 * 3)), "\r\n", "").alias(
                "value_base64"
            ),
            F.coalesce(F.octet_length(value), F.lit(0)).alias("value_size"),
            "error",
            F.timestamp_millis(wall_clock_ms()).alias("seen_time"),
        )
    )


def reporting_jobs(jobs: Sequence[ConfiguredJob]) -> list[ConfiguredJob]:
    """Return this job for the topics of other jobs, once for each trigger that it needs.

    A topic's trigger is the most urgent one of the jobs that read it. A job that writes files keeps
    unreadable records itself.
    """
    triggers: dict[Topic, list[Trigger]] = {topic: [] for topic in REPORTED_TOPICS}
    for one in jobs:
        for topic in one.topics_read if one.job.sink else ():
            if topic in triggers:
                triggers[topic].append(one.trigger)
    by_trigger: dict[Trigger, tuple[Topic, ...]] = {
        trigger: tuple(
            topic for topic, found in triggers.items() if found and _most_urgent(found) is trigger
        )
        for trigger in Trigger
    }
    return [
        ConfiguredJob(JOB, Options(topics=topics), trigger)
        for trigger, topics in by_trigger.items()
        if topics
    ]


def _most_urgent(triggers: Sequence[Trigger]) -> Trigger:
    return min(triggers, key=list(Trigger).index)


def _future_sentence(record: type[msgspec.Struct]) -> str:
    sentence = (
        f"event_time is more than {to_interval(FUTURE_TOLERANCE)} ahead of the append time: "
        "event-time jobs leave it out"
    )
    counted = ", rules by sequence or append time count the reading"
    return sentence + (counted if "sequence" in record.__struct_fields__ else "")


def _truncated_text(value: Column) -> Column:
    """Cut UTF-8 bytes at the last whole character that fits: a character has at most four bytes."""
    lengths = range(MAX_BYTES, MAX_BYTES - 4, -1)
    return F.coalesce(
        *[F.try_validate_utf8(F.substring(value, 1, length).cast("string")) for length in lengths]
    )


def _records(raw: DataFrame, topic: Topic, _options: Options) -> DataFrame:
    if topic.record is None:
        raise TypeError(f"{topic.name} has no record to compare values with")
    return dead_letters(set_aside(raw, topic.record), topic.name)


def _chosen_topics(options: Options) -> tuple[Topic, ...]:
    return tuple(topic for topic in options.topics if options.topic in ("all", topic.name))


# One plan, so that a topic's checkpoint serves every trigger. So it parses in the JVM.
_PLAN = Plan("records", _records, ("update",), reads_raw=True)

JOB = Job(
    name="dead_letters",
    sources=REPORTED_TOPICS,
    choose_sources=_chosen_topics,
    query_per_source=True,
    sink=DEAD_LETTERS,
    state_version="v1",
    options=Options,
    micro_batch_interval=timedelta(seconds=2),  # not urgent: leaves processors to the results
    real_time_batch_share=0.9,
    low_priority=True,
    covers_other_readers=True,
    state_partitions=0,
    plans=dict.fromkeys((Trigger.MICRO_BATCH, Trigger.REAL_TIME, Trigger.AVAILABLE_NOW), _PLAN),
)
