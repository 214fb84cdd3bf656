"""Totals per user, kept for ever: transactions from a topic, the time as a number or as text.

A total without an end is a count of its own: the state has a row for each user there ever was. Money is a decimal, so
that sums are exact. The time comes as seconds since 1970 or as `yyyy-MM-dd HH:mm:ss`, and is read as either.

Notice: user1's total goes on a day later, as if nothing had happened in between: nothing is forgotten. In update mode
every batch says the totals that changed; the last one per user counts.
In production: `user_totals`, keyed by user, so that a reader of the topic keeps the last record of each.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab

SCHEMA = "userId string, transactionId string, transactionTime string, amount decimal(18,2)"


def transactions(values: DataFrame) -> DataFrame:
    """Return the columns of transactions, `transactionTime` as a timestamp; in: `value` as JSON text."""
    parsed = values.select(F.from_json("value", SCHEMA).alias("transaction")).select("transaction.*")
    seconds = F.timestamp_seconds(F.expr("try_cast(transactionTime AS long)"))
    text = F.try_to_timestamp("transactionTime", F.lit("yyyy-MM-dd HH:mm:ss"))
    return parsed.withColumn("transactionTime", F.coalesce(seconds, text))


def totals(transactions: DataFrame) -> DataFrame:
    """Return `userId`, the latest `transactionTime`, `total` and `transactions` so far."""
    return transactions.groupBy("userId").agg(
        F.max("transactionTime").alias("transactionTime"),
        F.sum("amount").alias("total"),
        F.count("*").alias("transactions"),
    )


def run(lab: Lab) -> Iterator[str]:
    """Sum up a topic, two transactions a batch."""
    topic = lab.broker.topic("transactions")
    lab.broker.send(topic, (lab.data / "transactions.json").read_text(encoding="utf-8").splitlines())
    source = lab.spark.readStream.format("kafka").option("kafka.bootstrap.servers", lab.broker.bootstrap)
    stream = source.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2).load()
    yield from lab.batches(totals(transactions(stream.select(F.col("value").cast("string")))), "update")
