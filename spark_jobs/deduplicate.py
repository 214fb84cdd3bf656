"""Which events are new? Topics: `user-actions`, or the one of `--topic`, to `distinct-events`.

The first record of each `event_id` goes on, with its key and its value byte for byte; the others do not. By default
(`--keep expiring`) an id is remembered until the watermark of 10 minutes is 10 minutes past its event, and an event
that is older than the watermark is dropped, since nobody could tell whether it is a repeat: each event at most once,
with state for twenty minutes. With `--keep for-ever` no event is dropped but a repeat, and every id is kept for ever:
some hundred bytes of disk an event, nine gigabytes for a thousand events a second in a day, and each new event is
looked up among all of them.

What it gets wrong: Kafka's sink is at least once, so a kill writes the records of one batch again.
"""

from pyspark.sql import DataFrame

from events.topics import AD_CLICKS, AD_IMPRESSIONS, DISTINCT_EVENTS, RACK_READINGS, USER_ACTIONS
from spark_jobs.job import EXPIRING, FOR_EVER, Job, JobOptions, Plan
from spark_jobs.triggers import Trigger


def distinct_events(events: DataFrame, watermark: str | None) -> DataFrame:
    """Return one record per `event_id`; with a watermark (a duration) state is bounded, with None it is not.

    In: `event_id`, `event_time`, and whatever else is to go on.
    """
    if watermark is None:
        return events.dropDuplicates(["event_id"])
    return events.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(["event_id"])


def _records(events: DataFrame, options: JobOptions) -> DataFrame:
    bounded = None if options.keep == FOR_EVER else options.lateness
    return distinct_events(events, bounded).select("key", "value")


JOB = Job(
    name="deduplicate",
    source=USER_ACTIONS,
    choices=(USER_ACTIONS, AD_IMPRESSIONS, AD_CLICKS, RACK_READINGS),
    sink=DISTINCT_EVENTS,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("topic", "keep", "watermark"),
    defaults={"keep": EXPIRING},
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
