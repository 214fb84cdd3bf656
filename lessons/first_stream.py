"""The first stream: the same query over a table that is complete and over one that grows.

`spark.read` gives a DataFrame of the rows that exist now. `spark.readStream` gives one whose rows
keep arriving. What comes between source and sink is the same code: here an average per rack.
`isStreaming` tells the two apart, `printSchema` prints the same for both, and `explain` shows what
the stream adds to the plan: the average is read from a state store and written back to it.

Neither call runs anything. A static DataFrame runs with an action such as `show`. A stream has no
end, so it has no action (lesson unsupported_operations). It has a sink, and runs from `start` on.

Notice: The stream's last batch in complete mode is the static result. Without a schema the stream
would be refused, since the files are still to come (lesson schema_inference).
In production: `rack_temperature`, as every job, is such a function from DataFrame to DataFrame, so
its tests can run it over a static one.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, format_table

SCHEMA = "rack string, temperature double"
STEPS = r"FileScan|StreamingRelation|HashAggregate|Exchange|StateStoreRestore|StateStoreSave"


def averages(readings: DataFrame) -> DataFrame:
    """Return `rack` and its average `temperature`, of a static or a streaming DataFrame."""
    return readings.groupBy("rack").agg(F.avg("temperature").alias("temperature"))


def run(context: LessonContext) -> Iterator[str]:
    """Describe both DataFrames, show the static one and start the stream."""
    stream = context.stream(SCHEMA, "1.json", "2.json")
    static = context.spark.read.schema(SCHEMA).json(context.path("input"))
    for name, readings in (("static", static), ("stream", stream)):
        result = averages(readings)
        yield f"{name}: isStreaming {result.isStreaming}"
        with redirect_stdout(StringIO()) as schema:
            result.printSchema()
        yield schema.getvalue().rstrip()
        with redirect_stdout(StringIO()) as plan:
            result.explain()
        steps = re.findall(STEPS, plan.getvalue())
        yield f"plan, starting at the source: {', '.join(reversed(steps))}"
    yield f"the static result\n{format_table(averages(static))}"
    yield "the stream, one file per batch, in complete mode"
    yield from context.run_batches(averages(stream), "complete")
