"""What may change between two runs of the same checkpoint, and what may not: source, query and sink.

A count per user reads a topic and writes to another; then it is stopped, changed in one thing, and started again from
a copy of the same checkpoint, with two more records: a `close` of user1 and an `open` of user3.

Notice: Allowed is not the same as right. Another filter or projection counts from here on; what was counted stays
counted. Another output topic or type of sink begins without what was written before. The source is compared: another
topic looks like lost data, another number or type of sources is refused.
In production: A checkpoint's path has the job's rules version, and other options are refused in one sentence.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.lessons.frame.lab import Lab, finish, outcome


def run(lab: Lab) -> Iterator[str]:
    """Run once, copy the checkpoint for each change, and start the changed query from the copy."""
    names = ("in", "other", "out", "out2")
    source, other, sink, sink2 = (lab.broker.topic(f"changes-{name}") for name in names)
    events, more = (
        (lab.data / name).read_text("utf-8").splitlines() for name in ("events.json", "more.json")
    )
    lab.broker.send(source, events)
    lab.broker.send(other, events + events)
    spark, options = lab.spark, {"kafka.bootstrap.servers": lab.broker.bootstrap}

    def topic(name: str, **more_options: str) -> DataFrame:
        reader = spark.readStream.format("kafka").options(
            **options, subscribe=name, startingOffsets="earliest"
        )
        value = F.col("value").cast("string")
        fields = [F.get_json_object(value, f"$.{name}").alias(name) for name in ("user", "action")]
        return reader.options(**more_options).load().select(*fields)

    def per_user(rows: DataFrame) -> DataFrame:
        return rows.groupBy("user").count()

    def kafka(counts: DataFrame, to: str = sink) -> DataStreamWriter:
        value = F.concat_ws(" ", *counts.columns).alias("value")
        return (
            counts.select(value).writeStream.outputMode("update").format("kafka").options(**options, topic=to)
        )

    files = spark.readStream.schema("user string, action string").json(lab.arrive("more.json"))
    same = per_user(topic(source))
    changes: dict[str, Callable[[], DataStreamWriter]] = {
        "nothing": lambda: kafka(same),
        "a rate limit": lambda: kafka(per_user(topic(source, maxOffsetsPerTrigger="1"))),
        "a filter": lambda: kafka(per_user(topic(source).where("action = 'open'"))),
        "a projection": lambda: kafka(same.withColumn("twice", F.col("count") * 2)),
        "the output topic": lambda: kafka(same, sink2),
        "the type of sink": lambda: same.writeStream.outputMode("update").format("noop"),
        "the source topic": lambda: kafka(per_user(topic(other))),
        "a second source": lambda: kafka(per_user(topic(source).union(topic(other)))),
        "the type of source": lambda: kafka(per_user(files)),
    }
    finish(kafka(same).option("checkpointLocation", lab.path("first")).trigger(availableNow=True).start())
    yield f"the first run wrote {lab.broker.new(sink)}"
    lab.broker.send(source, more)
    for name, change in changes.items():
        copy = lab.copy("first", name.replace(" ", "-"))
        said = outcome(change().option("checkpointLocation", copy).start)
        yield f"{name}: {said}; wrote {lab.broker.new(sink)} and {lab.broker.new(sink2)}"
