"""Which changes to a stateful query a checkpoint allows: keys, aggregates, joins, partitions.

State is rows with a key schema and a value schema, spread over a number of partitions that is fixed
at the first start. A changed query finds the old rows. Spark refuses a different schema, but does
not notice a different meaning.

Notice: The total of user1 is 6, a count of 1 plus an amount of 5: the sum continued from a count,
because both are longs. The count per action started in the state of a count per user. Another
number of shuffle partitions is ignored. The inner join that became an outer join says that user1
had no click, though there was one: an inner join does not record which rows have matched. Allowed
does not mean correct.
In production: A change to a job's state, such as that of `user_totals`, is a new state version, and
so a new checkpoint.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import BatchCollector, LessonContext, outcome


def run(context: LessonContext) -> Iterator[str]:
    """Run a count and a join, and start changed ones from copies of their checkpoints."""
    events = context.stream("user string, action string, amount long", "events.json", into="events")
    count, total = F.count("*").alias("count"), F.sum("amount").alias("total")
    counts = events.groupBy("user").agg(count)
    yield from _changed(context, counts, ["events"], "update", {
        "nothing": counts,
        "the grouping key": events.groupBy("action").agg(count),
        "the grouping key's type": events.groupBy("amount").agg(count),
        "another aggregate of the same type": events.groupBy("user").agg(total),
        "one aggregate more": events.groupBy("user").agg(count, total),
        "no aggregation": events,
        "shuffle partitions": counts,
    })  # fmt: skip
    visits = context.stream("who string, at timestamp", "visits.json", into="visits").withWatermark(
        "at", "1 minute"
    )
    clicks = context.stream(
        "user string, ts timestamp", "clicks.json", into="clicks"
    ).withWatermark("ts", "1 minute")
    near = F.expr("user = who AND ts BETWEEN at AND at + INTERVAL 1 hour")
    joins = {
        f"join from inner to {how}": visits.join(clicks, on=near, how=how)
        for how in ("inner", "left_outer")
    }
    yield from _changed(
        context, joins["join from inner to inner"], ["visits", "clicks"], "append", joins
    )


def _changed(
    context: LessonContext,
    first: DataFrame,
    inputs: list[str],
    mode: str,
    changes: dict[str, DataFrame],
) -> Iterator[str]:
    checkpoint = f"first-{mode}"
    yield "\n".join(["the first run", *context.run_batches(first, mode, checkpoint)])
    for folder in inputs:
        context.add_file((context.data / f"more-{folder}.json").read_bytes(), f"{folder}/more.json")
    for name, rows in changes.items():
        context.spark.conf.set(
            "spark.sql.shuffle.partitions", 3 if name == "shuffle partitions" else 1
        )
        collector, copy = (
            BatchCollector(),
            context.copy(checkpoint, f"{name} {mode}".replace(" ", "-")),
        )
        writer = (
            rows.writeStream.outputMode(mode)
            .foreachBatch(collector)
            .option("checkpointLocation", copy)
        )
        yield f"{name}: {outcome(writer.start)}\n{collector.take()}"
