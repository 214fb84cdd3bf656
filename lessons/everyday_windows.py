"""Common window queries: words, daily maximum, errors, transactions.

All have the same form: filter, group by a window and perhaps another column, aggregate. The
watermark says when a window is final. Without one, windows work too, but stay in the state for ever
and have no append mode.

Notice: 23:59:59 belongs to the previous day, and 10:15:00 to the next quarter of an hour. The word
windows slide, so each word is in two; the other windows tumble. The words without a watermark give
the same counts, but no empty second batch, which Spark runs because a watermark has moved.
In production: `action_counts` and `rack_temperature` have this form.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def window_queries(events: DataFrame) -> dict[str, DataFrame]:
    """Return the queries by name, from `kind`, `what`, `ts` and `value`."""
    watermarked = events.withWatermark("ts", "10 minutes")

    def events_of(kind: str) -> DataFrame:
        return watermarked.where(F.col("kind") == kind)

    errors = events_of("log").where("what = 'ERROR'")
    ten_minutes = F.window("ts", "10 minutes", "5 minutes")
    return {
        "words in 10 minutes, every 5": events_of("word").groupBy(ten_minutes, "what").count(),
        "the same words without a watermark": events.where("kind = 'word'")
        .groupBy(ten_minutes, "what")
        .count(),
        "maximum temperature per day": events_of("temperature")
        .groupBy(F.window("ts", "1 day"))
        .agg(F.max("value").alias("max")),
        "errors per 15 minutes": errors.groupBy(F.window("ts", "15 minutes")).count(),
        "transactions per hour": events_of("transaction")
        .groupBy(F.window("ts", "1 hour"))
        .agg(F.count("*").alias("transactions"), F.sum("value").alias("amount")),
    }


def run(context: LessonContext) -> Iterator[str]:
    """Run each query over one batch of events."""
    events = context.stream("kind string, what string, ts timestamp, value double", "events.json")
    for name, rows in window_queries(events).items():
        yield name
        yield from context.run_batches(
            rows.withColumn("window", F.col("window.start")), "update", name
        )
