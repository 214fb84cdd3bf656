"""The plan of a stateful count, and the one partition that holds each key.

Each task counts the rows it has read (partial) and sends the counts to the partition of their key
(shuffle). That partition reads the stored count (restore), adds (merge), writes it back (save), and
gives the result. A key's partition is its hash modulo the number of partitions, which is fixed when
the checkpoint is first used.

Notice: Every word lies in exactly one partition, also after the second run with another setting:
the checkpoint keeps its four partitions and ignores the new number.
In production: `--state-partitions` sets the number at a checkpoint's first start, for `user_totals`
as for every job with state. Changing it needs a new checkpoint.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from lessons.harness.context import LessonContext, await_end, format_table


def run(context: LessonContext) -> Iterator[str]:
    """Show the plan, and which partition holds each word's count."""
    words = context.stream("word string", "words.json")
    counts = words.groupBy("word").count().writeStream.outputMode("update").format("noop")
    counts = counts.option("checkpointLocation", context.path("checkpoint")).trigger(
        availableNow=True
    )
    for partitions in (4, 8):
        context.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        query = counts.start()
        await_end(query)
        with redirect_stdout(StringIO()) as plan:
            query.explain()
        if partitions == 4:
            yield "the plan, starting at the source"
            yield "\n".join(_steps(plan.getvalue()))
        state = context.spark.read.format("statestore").load(context.path("checkpoint"))
        yield f"spark.sql.shuffle.partitions = {partitions}"
        yield format_table(state.selectExpr("key.word", "value.count", "partition_id"))
        context.add_file('{"word": "grape"}', "input/more.json")


def _steps(plan: str) -> list[str]:
    nodes = re.findall(
        r"(\w+(?:Aggregate|Exchange|Restore|Save)|Exchange)\b"
        r"(?:\(keys=\[.*?\], functions=\[(\w+)\()?",
        plan,
    )
    return [f"  {node} {function}".rstrip() for node, function in reversed(nodes)]
