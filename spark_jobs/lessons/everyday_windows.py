"""Four everyday questions, one form: words in ten minutes, maximum per day, errors per quarter, transactions per hour.

Filter, group by a window and perhaps something else, aggregate. The watermark says when a window is given up.

Notice: 23:59:59 belongs to the day before and 10:15:00 to the next quarter. The words' windows slide, so each word is
in two; the others tumble.
In production: `action_counts` and `rack_temperature` have this form.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def questions(events: DataFrame) -> dict[str, DataFrame]:
    """Return the four results by name; in: `kind`, `what`, `ts`, `value`."""
    late = events.withWatermark("ts", "10 minutes")

    def of(kind: str) -> DataFrame:
        return late.where(F.col("kind") == kind)

    errors = of("log").where("what = 'ERROR'")
    return {
        "words in 10 minutes, every 5": of("word")
        .groupBy(F.window("ts", "10 minutes", "5 minutes"), "what")
        .count(),
        "maximum temperature per day": of("temperature")
        .groupBy(F.window("ts", "1 day"))
        .agg(F.max("value").alias("max")),
        "errors per 15 minutes": errors.groupBy(F.window("ts", "15 minutes")).count(),
        "transactions per hour": of("transaction")
        .groupBy(F.window("ts", "1 hour"))
        .agg(F.count("*").alias("transactions"), F.sum("value").alias("amount")),
    }


def run(lab: Lab) -> Iterator[str]:
    """Answer each question over one batch of events."""
    events = lab.stream("kind string, what string, ts timestamp, value double", "events.json")
    for name, rows in questions(events).items():
        yield name
        yield from lab.batches(rows.withColumn("window", F.col("window.start")), "update", name)
