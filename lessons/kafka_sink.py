"""The Kafka sink is at-least-once: a repeated batch writes its records again.

The sink takes a column `value`, and optionally `key`, `topic` and `headers`. A batch that fails
before its commit runs again, and the sink does not take back what the first run wrote.

Notice: The lesson deletes the last commit and restarts the query, as if it had failed between write
and commit. That batch's records are now in the topic twice. A reader that keeps the last record per
key is still right; one that adds up records is not.
In production: Every alert, such as one of `overheating`, has an id derived from its content, and
`alerting` keeps one record per id.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end
from lessons.socket_words import word_counts


def run(context: LessonContext) -> Iterator[str]:
    """Count the words of a topic into another, then run the last batch again."""
    source, sink = (
        context.broker.create_topic("kafka-sink-lines"),
        context.broker.create_topic("kafka-sink-words"),
    )
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    lines = context.spark.readStream.format("kafka").options(
        **options, subscribe=source, startingOffsets="earliest"
    )
    counts = word_counts(lines.load().select(F.col("value").cast("string")))
    records = counts.select(
        F.col("word").alias("key"), F.to_json(F.struct("word", "count")).alias("value")
    )
    writer = records.writeStream.outputMode("update").format("kafka").options(**options, topic=sink)
    writer = writer.option("checkpointLocation", context.path("checkpoint")).trigger(
        availableNow=True
    )
    for line in (context.data / "lines.txt").read_text(encoding="utf-8").splitlines():
        context.broker.send(source, [line])
        await_end(writer.start())
        yield f"after {line!r}: {sorted(context.broker.read(sink))}"
    context.remove("checkpoint/commits/1")
    await_end(writer.start())
    yield f"after the last batch ran again: {sorted(context.broker.read(sink))}"
