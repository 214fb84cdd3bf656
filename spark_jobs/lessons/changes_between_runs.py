"""What may change between two runs of the same checkpoint, and what may not: each change tried.

A count per user reads a topic and writes to another; then it is stopped, changed in one thing, and started again from
the same checkpoint, with two more records. A join of two streams likewise.

Notice: Allowed is not the same as right. Another filter or projection counts from here on; what was counted stays
counted. Another grouping key of the same type is not noticed: counts per action now lie among those per user. The
number of state partitions is quietly that of the first start. Sources and the state's schema are compared, and refused.
In production: A checkpoint's path has the job's rules version; other options are refused in one sentence.
"""

import json
import shutil
from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.lessons.frame.lab import Lab, finish, outcome

Change = Callable[[], DataStreamWriter]


def run(lab: Lab) -> Iterator[str]:
    """Run once, copy the checkpoint for each change, and start the changed query from the copy."""
    source, other, sink, sink2 = (lab.broker.topic(f"changes-{name}") for name in ("in", "other", "out", "out2"))
    events, more = ((lab.data / name).read_text(encoding="utf-8").splitlines() for name in ("events.json", "more.json"))
    lab.broker.send(source, events)
    lab.broker.send(other, ['{"user": "user7"}', '{"user": "user8"}', '{"user": "user9"}'])
    spark, options = lab.spark, {"kafka.bootstrap.servers": lab.broker.bootstrap}

    def topic(name: str, **more_options: str) -> DataFrame:
        reader = spark.readStream.format("kafka").options(**options, subscribe=name, startingOffsets="earliest")
        event = F.from_json(F.col("value").cast("string"), "user string, action string, amount long").alias("event")
        return reader.options(**more_options).load().select(event).select("event.*")

    def kafka(counts: DataFrame, to: str = sink) -> DataStreamWriter:
        value = F.to_json(F.struct("*")).alias("value")
        return counts.select(value).writeStream.outputMode("update").format("kafka").options(**options, topic=to)

    def per(key: str, rows: DataFrame) -> DataFrame:
        return rows.groupBy(key).count()

    users = spark.readStream.schema("user string, site string").json(lab.arrive("users.json", into="users"))
    changes: dict[str, Change] = {
        "nothing": lambda: kafka(per("user", topic(source))),
        "a rate limit": lambda: kafka(per("user", topic(source, maxOffsetsPerTrigger="1"))),
        "a filter added": lambda: kafka(per("user", topic(source).where("action = 'open'"))),
        "a projection": lambda: kafka(per("user", topic(source)).withColumn("twice", F.col("count") * 2)),
        "the output topic": lambda: kafka(per("user", topic(source)), sink2),
        "the sink's type": lambda: per("user", topic(source)).writeStream.outputMode("update").format("noop"),
        "the source topic": lambda: kafka(per("user", topic(other))),
        "a second source": lambda: kafka(per("user", topic(source).select("user").union(topic(other).select("user")))),
        "the source's type": lambda: kafka(per("user", users)),
        "the grouping key": lambda: kafka(per("action", topic(source))),
        "the grouping key's type": lambda: kafka(per("amount", topic(source))),
        "another aggregate": lambda: kafka(topic(source).groupBy("user").agg(F.sum("amount").alias("count"), F.count("*").alias("n"))),
        "no aggregation": lambda: kafka(topic(source)),
    }  # fmt: skip
    finish(changes["nothing"]().option("checkpointLocation", lab.path("first")).trigger(availableNow=True).start())
    lab.broker.send(source, more)
    lab.broker.send(other, ['{"user": "user7"}'])
    news = _News(lab, sink, sink2)
    yield f"the first run wrote: {news}"
    for name, change in changes.items():
        yield f"{name}: {_from_a_copy(lab, change, name)}; wrote {news}"
    lab.spark.conf.set("spark.sql.shuffle.partitions", 3)
    said = _from_a_copy(lab, changes["nothing"], "partitions")
    yield f"shuffle partitions from 1 to 3: {said}; wrote {news}"
    lab.spark.conf.unset("spark.sql.shuffle.partitions")
    clicks = lab.stream("user string, ts timestamp", "clicks.json", into="clicks").withWatermark("ts", "1 minute")
    visits = lab.stream("who string, at timestamp", "visits.json", into="visits").withWatermark("at", "1 minute")

    def join(how: str) -> Change:
        near = F.expr("user = who AND ts BETWEEN at AND at + INTERVAL 1 hour")
        return lambda: visits.join(clicks, on=near, how=how).writeStream.format("noop")

    lab.remove("first")
    finish(join("inner")().option("checkpointLocation", lab.path("first")).trigger(availableNow=True).start())
    for how in ("inner", "left_outer"):
        yield f"join from inner to {how}: {_from_a_copy(lab, join(how), how)}"


def _from_a_copy(lab: Lab, change: Change, name: str) -> str:
    copy = name.replace(" ", "-")
    shutil.copytree(lab.path("first"), lab.path(copy))
    return outcome(change().option("checkpointLocation", lab.path(copy)).start)


class _News:
    """Tells what was written to topics since it was asked last."""

    def __init__(self, lab: Lab, *topics: str) -> None:
        self.lab = lab
        self.read = dict.fromkeys(topics, 0)

    def __str__(self) -> str:
        new = []
        for topic, before in self.read.items():
            records = self.lab.broker.read(topic)
            self.read[topic] = len(records)
            new += [" ".join(map(str, json.loads(value).values())) for value in records[before:]]
        return str(sorted(new))
