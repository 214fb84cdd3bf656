"""Which impressions led to which clicks? Topics: `ad-impressions` and `ad-clicks` to `ad-attribution`.

A click belongs to the impression with its `impression_id`, from the impression's moment to an hour later, both ends
in. One row for each distinct click, as soon as both have come, in whatever order; by default (`left`) also one row with
null for an impression to which no click can come any more. Repeats of either are removed by `event_id` before they
meet. Watermarks: 2 hours for impressions and 3 hours for clicks; the one further behind counts (`min`).

What it gets wrong: an impression or a click that is older than the watermark is dropped, so that its row is missing
or says that there was no click. Rows without a partner appear only after newer records on both sides have moved the
watermark past the hour: for an impression of 12:00 when both topics have passed 16:00. A topic that stands still
holds them back; `--watermark-policy max` does not wait for it, and loses what it still has to bring.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.cli import PersonError
from events.topics import AD_ATTRIBUTION, AD_CLICKS, AD_IMPRESSIONS
from spark_jobs.job import Job, JobOptions, Plan
from spark_jobs.kafka import to_record
from spark_jobs.triggers import Trigger

CLICK_WITHIN = "1 hour"
"""How long after its impression a click still belongs to it; the contract's."""

JOINS = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "semi": "left_semi",
}
"""Every type of join that two streams can have, by the name of the option."""


def distinct_impressions(impressions: DataFrame, watermark: str) -> DataFrame:
    """Return `impression_id`, `ad_id`, `user_id` and `impression_time` of each impression once, with a watermark."""
    return _distinct(impressions, watermark).select(
        "impression_id", "ad_id", "user_id", F.col("event_time").alias("impression_time")
    )


def distinct_clicks(clicks: DataFrame, watermark: str) -> DataFrame:
    """Return each click once, with a watermark: `click_id`, `click_time`, and `clicked_` before the other ids."""
    return _distinct(clicks, watermark).select(
        "click_id",
        F.col("event_time").alias("click_time"),
        *[F.col(name).alias(f"clicked_{name}") for name in ("impression_id", "ad_id", "user_id")],
    )


def attributions(impressions: DataFrame, clicks: DataFrame, join: str = "left") -> DataFrame:
    """Return the rows of `AdAttribution`, one per pair, and those without a partner that the join keeps.

    In: what `distinct_impressions` and `distinct_clicks` return. A click without impression (`right`, `full`) has its
    own ids and no `impression_time`; of a `semi` join come the impressions that were clicked, once each, and no click.
    """
    hour_later = F.col("impression_time") + F.expr(f"INTERVAL {CLICK_WITHIN}")
    meets = (
        (F.col("impression_id") == F.col("clicked_impression_id"))
        & (F.col("click_time") >= F.col("impression_time"))
        & (F.col("click_time") <= hour_later)
    )
    joined = impressions.join(clicks, on=meets, how=JOINS[join])
    if join == "semi":
        joined = joined.select("*", *_no_click())
    elif join in ("right", "full"):
        for name in ("impression_id", "ad_id", "user_id"):
            joined = joined.withColumn(name, F.coalesce(name, f"clicked_{name}"))
    return joined.select(
        "impression_id", "ad_id", "user_id", "impression_time", "click_id", "click_time", _seconds_to_click()
    )


def first_clicks(attributed: DataFrame) -> DataFrame:
    """Return one row per impression, with its earliest click, once no earlier one can come.

    In: rows of `attributions` of which each has an impression.
    """
    click = F.struct(_unmarked("click_time").alias("click_time"), "click_id")
    marked = attributed.select(
        "impression_id", "ad_id", "user_id", "impression_time",
        F.when(F.col("click_id").isNotNull(), click).alias("click"),
    )  # fmt: skip
    first = marked.groupBy("impression_id", "ad_id", "user_id", "impression_time").agg(
        F.min("click").alias("click")
    )
    return first.select(
        "impression_id", "ad_id", "user_id", "impression_time", "click.click_id", "click.click_time",
    ).select("*", _seconds_to_click())  # fmt: skip


def _distinct(events: DataFrame, watermark: str) -> DataFrame:
    return events.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark(["event_id"])


def _unmarked(time: str) -> Column:
    """Return a time that carries no watermark: rows may have only one such to be grouped by."""
    return F.timestamp_micros(F.unix_micros(time))


def _no_click() -> list[Column]:
    return [
        F.lit(None).cast("string").alias("click_id"),
        F.lit(None).cast("timestamp").alias("click_time"),
    ]


def _seconds_to_click() -> Column:
    millis = F.unix_millis("click_time") - F.unix_millis("impression_time")
    return (millis / 1000).alias("seconds_to_click")


def _records(impressions: DataFrame, clicks: DataFrame, options: JobOptions) -> DataFrame:
    if options.first_only and options.join not in ("inner", "left"):
        raise PersonError(f"--first-only goes with --join inner or left, not with {options.join}.")
    rows = attributions(
        distinct_impressions(impressions, options.impressions_watermark),
        distinct_clicks(clicks, options.clicks_watermark),
        options.join,
    )
    rows = first_clicks(rows) if options.first_only else rows
    return rows.select(*to_record(F.col("impression_id"), *rows.columns))


JOB = Job(
    name="ad_attribution",
    source=AD_IMPRESSIONS,
    more_sources=(AD_CLICKS,),
    sink=AD_ATTRIBUTION,
    by_event_time=True,
    rules_version="v1",
    shaping_options=("join", "first_only", "impressions_watermark", "clicks_watermark", "watermark_policy"),
    plans={
        Trigger.MICRO_BATCH: Plan("micro-batch", _records, ("append",)),
        Trigger.AVAILABLE_NOW: Plan("micro-batch", _records, ("append",)),
    },
)
