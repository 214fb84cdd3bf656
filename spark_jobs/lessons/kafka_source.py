"""A topic as a stream: key and value are bytes, and every record says where it lay.

`subscribe` names the topic, `startingOffsets` where to begin when there is no checkpoint (`earliest`, `latest` or a
place in each partition), `maxOffsetsPerTrigger` bounds a batch. The value is bytes; what it means, the query says.

Notice: Two partitions are two orders: offsets count in each, and only a partition has an order. The place in
`startingOffsets` counted once, before there was a checkpoint. Spark commits no offsets to Kafka: the checkpoint has
them, and lag is in the query's progress.
In production: `spark_jobs/kafka.py` reads every topic this way; records that cannot be parsed become dead letters.
"""

import json
from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab


def run(lab: Lab) -> Iterator[str]:
    """Read a topic of two partitions: all of it, four records a batch, and from a place on."""
    topic = lab.broker.topic("kafka-source", partitions=2)
    records = [
        json.loads(line) for line in (lab.data / "readings.json").read_text(encoding="utf-8").splitlines()
    ]
    lab.broker.send(topic, [(reading["rack"], json.dumps(reading)) for reading in records])
    reader = lab.spark.readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", lab.broker.bootstrap)
    yield "columns: " + ", ".join(" ".join(pair) for pair in reader.load().dtypes)
    places = json.dumps({topic: {"0": 1, "1": -2}})
    for options in ({"startingOffsets": "earliest"}, {"startingOffsets": places}):
        stream = reader.options(maxOffsetsPerTrigger=4, **options).load()
        reading = F.from_json(F.col("value").cast("string"), "rack string, temperature double").alias(
            "reading"
        )
        rows = stream.select("partition", "offset", F.col("key").cast("string"), reading)
        yield f"{options}"
        yield from lab.batches(
            rows.select("partition", "offset", "key", "reading.temperature"),
            checkpoint=options["startingOffsets"][:3],
        )
