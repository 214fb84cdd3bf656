"""Which impressions led to which clicks?

Topics: `ad-impressions` and `ad-clicks` -> `ad-attribution`. A stream-stream join, without windows.
Watermarks: 2 hours for impressions and 3 hours for clicks; the slower stream's counts (`min`).

A click belongs to the impression with its `impression_id`, from the impression's moment until an
hour later, both ends included. There is one row per distinct click, as soon as both events have
arrived, in whatever order. By default (`left`) there is also one row with null for an impression to
which no click can come any more. Duplicates are removed before the join: impressions by
`impression_id`, and clicks by `event_id`.

Limitations: an impression or a click that is older than the watermark is dropped, so its row is
missing, or says that there was no click. Rows without a partner come only after newer records on
both sides have moved the watermark past the hour: for an impression of 12:00, when the newest
impression is later than 15:00 and the newest click later than 16:00. A topic without new records
delays them. `--watermark-policy max` does not wait for such a topic, and loses what it still
delivers.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from events.cli import UserFacingError
from events.constants import CLICK_WITHIN, CLICKS_WATERMARK, IMPRESSIONS_WATERMARK
from events.times import to_interval
from events.topics import AD_ATTRIBUTION, AD_CLICKS, AD_IMPRESSIONS
from events.triggers import Trigger
from spark_jobs.runtime.job import Job, Plan
from spark_jobs.runtime.kafka_io import to_record
from spark_jobs.runtime.options import JobOptions

JOINS = {
    "inner": "inner",
    "left": "left_outer",
    "right": "right_outer",
    "full": "full_outer",
    "semi": "left_semi",
}
"""Every join type of two streams: the option's name and Spark's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JobOptions):
    """Options of `ad_attribution`."""

    join: Annotated[
        Literal["inner", "left", "right", "full", "semi"],
        "Which rows come beside pairs. inner: none. left: impressions without a click. right: "
        "clicks without an impression. full: both. semi: instead of pairs, the impressions that "
        "were clicked.",
    ] = "left"
    first_only: Annotated[
        bool,
        "Write only the earliest click of an impression, once no earlier one can come; with "
        "--join inner or left.",
    ] = False
    impressions_watermark: Annotated[str, "How late an impression may be and still count."] = (
        to_interval(IMPRESSIONS_WATERMARK)
    )
    clicks_watermark: Annotated[str, "How late a click may be and still count."] = to_interval(
        CLICKS_WATERMARK
    )
    watermark_policy: Annotated[
        Literal["min", "max"],
        "Which topic sets the watermark of both: the one further behind (min) or ahead (max).",
    ] = "min"

    def __post_init__(self) -> None:
        """Raise `UserFacingError` for options that contradict each other."""
        if self.first_only and self.join not in ("inner", "left"):
            raise UserFacingError(
                f"--first-only works with --join inner or left, not with {self.join}."
            )


def distinct_impressions(impressions: DataFrame, watermark: str) -> DataFrame:
    """Return each `impression_id` once, with a watermark.

    Records with the same `impression_id` are copies of one impression. The join has the same key,
    so Spark shuffles impressions once for both.

    Out: `impression_id`, `ad_id`, `user_id`, `impression_time`.
    """
    return _distinct(impressions, "impression_id", watermark).select(
        "impression_id", "ad_id", "user_id", F.col("event_time").alias("impression_time")
    )


def distinct_clicks(clicks: DataFrame, watermark: str) -> DataFrame:
    """Return each click once, with a watermark.

    Out: `click_id`, `click_time`, and the other ids with the prefix `clicked_`.
    """
    return _distinct(clicks, "event_id", watermark).select(
        "click_id",
        F.col("event_time").alias("click_time"),
        *[F.col(name).alias(f"clicked_{name}") for name in ("impression_id", "ad_id", "user_id")],
    )


def attributions(impressions: DataFrame, clicks: DataFrame, join: str = "left") -> DataFrame:
    """Return the columns of `AdAttribution`: one row per pair, and the unmatched rows of the join.

    In: what `distinct_impressions` and `distinct_clicks` return. A click without an impression
    (`right`, `full`) has its own ids and no `impression_time`. A `semi` join returns each
    impression that was clicked once, without a click.
    """
    latest_click = F.col("impression_time") + F.expr(f"INTERVAL {to_interval(CLICK_WITHIN)}")
    is_pair = (
        (F.col("impression_id") == F.col("clicked_impression_id"))
        & (F.col("click_time") >= F.col("impression_time"))
        & (F.col("click_time") <= latest_click)
    )
    joined = impressions.join(clicks, on=is_pair, how=JOINS[join])
    if join == "semi":
        joined = joined.select("*", *_no_click())
    elif join in ("right", "full"):
        for name in ("impression_id", "ad_id", "user_id"):
            joined = joined.withColumn(name, F.coalesce(name, f"clicked_{name}"))
    return joined.select(
        "impression_id",
        "ad_id",
        "user_id",
        "impression_time",
        "click_id",
        "click_time",
        _seconds_to_click(),
    )


def first_clicks(attributed: DataFrame) -> DataFrame:
    """Return one row per impression, with its earliest click, once no earlier one can come.

    In: rows of `attributions`, each with an impression.
    """
    click = F.struct(_without_watermark("click_time").alias("click_time"), "click_id")
    with_click = attributed.select(
        "impression_id", "ad_id", "user_id", "impression_time",
        F.when(F.col("click_id").isNotNull(), click).alias("click"),
    )  # fmt: skip
    first = with_click.groupBy("impression_id", "ad_id", "user_id", "impression_time").agg(
        F.min("click").alias("click")
    )
    return first.select(
        "impression_id", "ad_id", "user_id", "impression_time",
        "click.click_id", "click.click_time",
    ).select("*", _seconds_to_click())  # fmt: skip


def _distinct(events: DataFrame, key: str, watermark: str) -> DataFrame:
    return events.withWatermark("event_time", watermark).dropDuplicatesWithinWatermark([key])


def _without_watermark(time: str) -> Column:
    """Return a time without its watermark: an aggregation may see only one time that has one."""
    return F.timestamp_micros(F.unix_micros(time))


def _no_click() -> list[Column]:
    return [
        F.lit(None).cast("string").alias("click_id"),
        F.lit(None).cast("timestamp").alias("click_time"),
    ]


def _seconds_to_click() -> Column:
    millis = F.unix_millis("click_time") - F.unix_millis("impression_time")
    return (millis / 1000).alias("seconds_to_click")


def _records(impressions: DataFrame, clicks: DataFrame, options: Options) -> DataFrame:
    rows = attributions(
        distinct_impressions(impressions, options.impressions_watermark),
        distinct_clicks(clicks, options.clicks_watermark),
        options.join,
    )
    rows = first_clicks(rows) if options.first_only else rows
    return rows.select(*to_record(F.col("impression_id"), *rows.columns))


JOB = Job(
    name="ad_attribution",
    sources=(AD_IMPRESSIONS, AD_CLICKS),
    sink=AD_ATTRIBUTION,
    by_event_time=True,
    state_version="v2",
    counts_state_rows=False,
    options=Options,
    watermark_policy=lambda options: options.watermark_policy,
    plans=dict.fromkeys(
        (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW), Plan("micro-batch", _records, ("append",))
    ),
)
