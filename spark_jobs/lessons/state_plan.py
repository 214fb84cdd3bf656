"""State on many tasks: the plan of a grouped count, and one owner for each key.

Each task counts what it has read (partial), sends the counts to the key's owner (shuffle), which reads the count so
far (restore), adds (merge), writes it back (save), and gives the result. A key's owner is the hash of the key modulo
the number of partitions, which is fixed when the checkpoint is first used.

Notice: Every word lies in exactly one partition, also after the second run with another setting: the four partitions
of the first start are the checkpoint's, and the new number is ignored.
In production: `--state-partitions` sets the number at a checkpoint's first start; changing it needs a new checkpoint.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from spark_jobs.lessons.frame.lab import Lab, finish, table

STEPS = (
    r"(HashAggregate\(.*?(?:partial_|merge_)?count\(|Exchange|StateStoreRestore|StateStoreSave|HashAggregate)"
)


def run(lab: Lab) -> Iterator[str]:
    """Show the plan from its source to its sink, and where each word's count lies."""
    words = lab.stream("word string", "words.json")
    counts = words.groupBy("word").count().writeStream.outputMode("update").format("noop")
    counts = counts.option("checkpointLocation", lab.path("checkpoint")).trigger(availableNow=True)
    for partitions in (4, 8):
        lab.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        query = counts.start()
        finish(query)
        with redirect_stdout(StringIO()) as plan:
            query.explain()
        if partitions == 4:
            yield "the plan, from the source on"
            yield "\n".join(_steps(plan.getvalue()))
        state = lab.spark.read.format("statestore").load(lab.path("checkpoint"))
        yield f"spark.sql.shuffle.partitions = {partitions}"
        yield table(state.selectExpr("key.word", "value.count", "partition_id"))
        lab.write('{"word": "grape"}', "input/more.json")


def _steps(plan: str) -> list[str]:
    nodes = re.findall(
        r"(\w+(?:Aggregate|Exchange|Restore|Save)|Exchange)\b(?:\(keys=\[.*?\], functions=\[(\w+)\()?", plan
    )
    return [f"  {node} {function}".rstrip() for node, function in reversed(nodes)]
