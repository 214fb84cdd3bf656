"""Totals per user without expiry: transactions from a topic, with two time formats.

The state has one row for each user seen so far. Amounts are decimals, so sums are exact. The time
is either seconds since 1970 or `yyyy-MM-dd HH:mm:ss`, and the query parses both.

Notice: The total of user1 continues a day later, because nothing expires. In update mode every
batch writes the totals that changed; the last record per user counts.
In production: `user_totals` writes records keyed by user, so a reader keeps the last record of each
key.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

SCHEMA = "userId string, transactionId string, transactionTime string, amount decimal(18,2)"


def transactions(values: DataFrame) -> DataFrame:
    """Parse transactions from JSON in `value`, with `transactionTime` as a timestamp."""
    parsed = values.select(F.from_json("value", SCHEMA).alias("transaction")).select(
        "transaction.*"
    )
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


def run(context: LessonContext) -> Iterator[str]:
    """Sum the transactions of a topic, two per batch."""
    topic = context.broker.create_topic("transactions")
    context.broker.send(
        topic, (context.data / "transactions.json").read_text(encoding="utf-8").splitlines()
    )
    source = context.spark.readStream.format("kafka").option(
        "kafka.bootstrap.servers", context.broker.bootstrap
    )
    stream = source.options(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=2
    ).load()
    yield from context.run_batches(
        totals(transactions(stream.select(F.col("value").cast("string")))), "update"
    )
