"""Which changes to source, query and sink a checkpoint allows between two runs.

A count per user reads a topic and writes to another. The lesson stops it, changes one thing, and
starts it from a copy of the same checkpoint with two more records: a `close` of user1 and an `open`
of user3.

Notice: Allowed does not mean correct. Another filter or projection applies from here on; earlier
counts stay. Another output topic or sink type starts without the earlier output. Spark compares the
source: another topic looks like lost data, and another number or type of sources is refused.
In production: The path of a checkpoint, such as that of `archive`, contains the state version, and
a start with other options is refused with one sentence.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, await_end, outcome


def run(context: LessonContext) -> Iterator[str]:
    """Run once, copy the checkpoint for each change, and start the changed query from the copy."""
    names = ("in", "other", "out", "out2")
    source, other, sink, sink2 = (context.broker.create_topic(f"changes-{name}") for name in names)
    events, more = (
        (context.data / name).read_text("utf-8").splitlines()
        for name in ("events.json", "more.json")
    )
    context.broker.send(source, events)
    context.broker.send(other, events + events)
    spark, options = context.spark, {"kafka.bootstrap.servers": context.broker.bootstrap}

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
            counts.select(value)
            .writeStream.outputMode("update")
            .format("kafka")
            .options(**options, topic=to)
        )

    files = spark.readStream.schema("user string, action string").json(
        context.add_files("more.json")
    )
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
    await_end(
        kafka(same)
        .option("checkpointLocation", context.path("first"))
        .trigger(availableNow=True)
        .start()
    )
    yield f"the first run wrote {context.broker.read_new(sink)}"
    context.broker.send(source, more)
    for name, change in changes.items():
        copy = context.copy("first", name.replace(" ", "-"))
        result = outcome(change().option("checkpointLocation", copy).start)
        written = [context.broker.read_new(topic) for topic in (sink, sink2)]
        yield f"{name}: {result}; wrote {written[0]} and {written[1]}"
