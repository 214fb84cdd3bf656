"""Kafka to Kafka: words counted into a topic, at least once.

The sink takes a column `value` (and `key`, `topic`, `headers`). What a batch wrote is not taken back when the batch
runs again, and a batch runs again when it died before it was committed. So the sink is at least once.

Notice: The last commit is deleted and the query started again, as if it had died between writing and committing: its
records are in the topic twice. The count is right in both; who adds up records instead of keeping the last per key is
wrong.
In production: Every alert has an id that depends on what was decided, and `alerting` keeps one record per id.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish
from spark_jobs.lessons.socket_words import word_counts


def run(lab: Lab) -> Iterator[str]:
    """Count the words of a topic into another, twice."""
    source, sink = lab.broker.topic("kafka-sink-lines"), lab.broker.topic("kafka-sink-words")
    options = {"kafka.bootstrap.servers": lab.broker.bootstrap}
    lines = lab.spark.readStream.format("kafka").options(
        **options, subscribe=source, startingOffsets="earliest"
    )
    counts = word_counts(lines.load().select(F.col("value").cast("string")))
    records = counts.select(F.col("word").alias("key"), F.to_json(F.struct("word", "count")).alias("value"))
    writer = records.writeStream.outputMode("update").format("kafka").options(**options, topic=sink)
    writer = writer.option("checkpointLocation", lab.path("checkpoint")).trigger(availableNow=True)
    for line in (lab.data / "lines.txt").read_text(encoding="utf-8").splitlines():
        lab.broker.send(source, [line])
        finish(writer.start())
        yield f"after {line!r}: {sorted(lab.broker.read(sink))}"
    lab.remove("checkpoint/commits/1")
    finish(writer.start())
    yield f"after the last batch ran again: {sorted(lab.broker.read(sink))}"
