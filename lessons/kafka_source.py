"""The Kafka source gives key and value as bytes, with partition and offset.

`subscribe` names the topic. `startingOffsets` says where to begin when there is no checkpoint:
`earliest`, `latest` or an offset per partition. `maxOffsetsPerTrigger` limits a batch. The query
has to decode the value.

Notice: Offsets count within a partition, and only a partition has an order. `startingOffsets`
applies only to the first start. Spark commits no offsets to Kafka: the checkpoint has them, and the
query's progress shows the lag.
In production: Every job reads its topics this way. Records that cannot be parsed become dead
letters, which `dead_letters` reports.
"""

import json
from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext


def run(context: LessonContext) -> Iterator[str]:
    """Read a topic of two partitions, from the beginning and from given offsets."""
    topic = context.broker.create_topic("kafka-source", partitions=2)
    records = [
        json.loads(line)
        for line in (context.data / "readings.json").read_text(encoding="utf-8").splitlines()
    ]
    context.broker.send(topic, [(reading["rack"], json.dumps(reading)) for reading in records])
    reader = context.spark.readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", context.broker.bootstrap)
    yield "columns: " + ", ".join(" ".join(pair) for pair in reader.load().dtypes)
    offsets = json.dumps({topic: {"0": 1, "1": -2}})
    for options in ({"startingOffsets": "earliest"}, {"startingOffsets": offsets}):
        stream = reader.options(maxOffsetsPerTrigger=4, **options).load()
        reading = F.from_json(
            F.col("value").cast("string"), "rack string, temperature double"
        ).alias("reading")
        rows = stream.select("partition", "offset", F.col("key").cast("string"), reading)
        yield f"{options}"
        yield from context.run_batches(
            rows.select("partition", "offset", "key", "reading.temperature"),
            checkpoint=options["startingOffsets"][:3],
        )
