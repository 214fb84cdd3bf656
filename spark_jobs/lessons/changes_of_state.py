"""What may change between two runs where a query has state: keys, aggregates, joins, partitions.

State is rows in a store, with a schema for key and value, spread over a number of partitions that is fixed at the
first start. A changed query finds the old rows. Where their schema differs, it is refused; where it does not, nobody
notices.

Notice: user1's total is 6, a count of 1 and an amount of 5: a sum went on from a count, since both are a long. So did
a count per action from the rows of the users. Another number of shuffle partitions is ignored. The inner join that
became an outer one says of user1 that no click came, though one did: an inner join does not mark what has met its
partner. Allowed is not the same as right.
In production: A change of what a job keeps is a new rules version, and so a new checkpoint.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Batches, Lab, outcome


def run(lab: Lab) -> Iterator[str]:
    """Run a count and a join, and start changed ones from copies of their checkpoints."""
    events = lab.stream("user string, action string, amount long", "events.json", into="events")
    count, total = F.count("*").alias("count"), F.sum("amount").alias("total")
    counts = events.groupBy("user").agg(count)
    yield from _changed(lab, counts, ["events"], "update", {
        "nothing": counts,
        "the grouping key": events.groupBy("action").agg(count),
        "the grouping key's type": events.groupBy("amount").agg(count),
        "another aggregate of the same type": events.groupBy("user").agg(total),
        "one aggregate more": events.groupBy("user").agg(count, total),
        "no aggregation": events,
        "shuffle partitions": counts,
    })  # fmt: skip
    visits = lab.stream("who string, at timestamp", "visits.json", into="visits").withWatermark(
        "at", "1 minute"
    )
    clicks = lab.stream("user string, ts timestamp", "clicks.json", into="clicks").withWatermark(
        "ts", "1 minute"
    )
    near = F.expr("user = who AND ts BETWEEN at AND at + INTERVAL 1 hour")
    joins = {
        f"join from inner to {how}": visits.join(clicks, on=near, how=how) for how in ("inner", "left_outer")
    }
    yield from _changed(lab, joins["join from inner to inner"], ["visits", "clicks"], "append", joins)


def _changed(
    lab: Lab, first: DataFrame, arrives: list[str], mode: str, changes: dict[str, DataFrame]
) -> Iterator[str]:
    begun = f"begun-{mode}"
    yield "\n".join(["the first run", *lab.batches(first, mode, begun)])
    for folder in arrives:
        lab.write((lab.data / f"more-{folder}.json").read_bytes(), f"{folder}/more.json")
    for name, rows in changes.items():
        lab.spark.conf.set("spark.sql.shuffle.partitions", 3 if name == "shuffle partitions" else 1)
        shown, copy = Batches(), lab.copy(begun, f"{name} {mode}".replace(" ", "-"))
        writer = rows.writeStream.outputMode(mode).foreachBatch(shown).option("checkpointLocation", copy)
        yield f"{name}: {outcome(writer.start)}\n{shown.new()}"
