"""Which events are new?

Topics: `user-actions`, or the one of `--topic` -> `distinct-events`. No window. Watermark: 10
minutes.

The first record of each `event_id` passes, with its key and value byte for byte; the others do not.
By default an id is kept until the watermark is 10 minutes past its event, and an event that is
older than the watermark is dropped, since nobody could tell whether it is a duplicate. So each
event passes at most once, with state for twenty minutes. With unbounded retention only duplicates
are dropped, and every id is kept: some hundred bytes of disk per event, or nine gigabytes a day at
a thousand events per second, all of which each new event is looked up in.

Limitations: Kafka's sink is at-least-once, so a crash may write the records of one batch again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pyspark.sql import DataFrame

from events.constants import WATERMARK
from events.times import to_interval
from events.topics import (
    AD_CLICKS,
    AD_IMPRESSIONS,
    DISTINCT_EVENTS,
    RACK_READINGS,
    USER_ACTIONS,
    Topic,
)
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.options import JobOptions

_TOPICS = {topic.name: topic for topic in (USER_ACTIONS, AD_IMPRESSIONS, AD_CLICKS, RACK_READINGS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `deduplicate`."""

    topic: Annotated[
        Literal["user-actions", "ad-impressions", "ad-clicks", "rack-readings"],
        "The topic to read.",
    ] = "user-actions"
    state_retention: Annotated[
        Literal["unbounded", "ttl"],
        "unbounded: an id never expires. ttl: an id is kept until no duplicate of it can count.",
    ] = "ttl"
    watermark: Annotated[str, "How late an event may be and still count, where state expires."] = (
        to_interval(WATERMARK)
    )

    @property
    def without_effect(self) -> Mapping[str, str]:
        """Without expiry there is no watermark."""
        if self.state_retention == "unbounded":
            return {"watermark": "--state-retention unbounded"}
        return {}


def distinct_events(events: DataFrame, watermark: str | None) -> DataFrame:
    """Return one record per `event_id`.

    In: `event_id`, `event_time`, and any other columns, which are passed on. `watermark` is a
    duration; with None the state is unbounded.
    """
    if watermark is None:
        return events.dropDuplicates(["event_id"])
    return events.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(["event_id"])


def _records(events: DataFrame, options: Options) -> DataFrame:
    watermark = options.watermark if options.state_retention == "ttl" else None
    return distinct_events(events, watermark).select("key", "value")


def _chosen_topic(options: Options) -> tuple[Topic, ...]:
    return (_TOPICS[options.topic],)


JOB = Job(
    name="deduplicate",
    sources=tuple(_TOPICS.values()),
    choose_sources=_chosen_topic,
    sink=DISTINCT_EVENTS,
    by_event_time=True,
    state_version="v1",
    counts_state_rows=False,
    options=Options,
    plans=dict.fromkeys(
        (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), Plan("micro-batch", _records, ("append",))
    ),
)
