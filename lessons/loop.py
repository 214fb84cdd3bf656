"""The loop: poll, plan, run, commit, and how an input table becomes a result table.

Think of the source as an input table to which rows are appended without end. A query over it has a
result table, as if it ran over all rows so far. Spark does not keep the input table: it keeps what
it needs to go on, the state. A started query repeats four steps, its micro-batch:

1. Poll. Ask the source how far it has come. If nothing is new, wait for the next trigger. A
   watermark that has moved, or a timer, also makes a batch, without rows
   (lesson late_rows).
2. Plan. Write what the batch will read to `offsets`, then plan the query over those rows only.
3. Run. Merge the new rows with the state, and give the sink the rows of the output mode.
4. Commit. Write the batch's number to `commits`. After a crash before that, the batch runs again.

Three published claims are wrong or out of date:

- "Since 2.3": Structured Streaming came with Spark 2.0, and was declared stable with 2.2. Version
  2.3 added continuous processing and joins of two streams.
- "There are no batches": the model has none, the engine has. Every progress has a batch number.
  Only the continuous trigger, still experimental, has epochs instead; real-time has long batches.
- "The slide says how often it is computed": the slide says where windows begin. The trigger says
  how often the result is computed.

Notice: During a batch its offsets are written and its commit is not. Batch 0 computes four windows,
batch 1 updates two of them: nothing waited for a slide of five minutes. The last poll found nothing
new, so there is no batch 2. The result table is the query over the whole input table, each time.
In production: The checkpoints of `rack_temperature` and of every other job have these two logs
(lesson checkpoint).
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, format_table, started

SCHEMA = "rack string, ts timestamp"
STEPS = {
    "poll": ("latestOffset",),
    "plan": ("walCommit", "getBatch", "queryPlanning"),
    "run": ("addBatch",),
    "commit": ("commitOffsets",),
}
"""The steps of a batch, with the names that its progress has for their durations."""

LOGS = ("offsets", "commits")


def counts(readings: DataFrame) -> DataFrame:
    """Return readings per window of ten minutes, a new one every five."""
    windows = readings.groupBy(F.window("ts", "10 minutes", "5 minutes")).count()
    return windows.select(F.date_format("window.start", "HH:mm").alias("start"), "count")


def logs(context: LessonContext) -> str:
    """Return the batch numbers in both logs of the checkpoint."""
    files = {log: (context.folder / "checkpoint" / log).glob("[0-9]*") for log in LOGS}
    return ", ".join(f"{log} {sorted(int(f.name) for f in found)}" for log, found in files.items())


def run(context: LessonContext) -> Iterator[str]:
    """Send one file, another, and none, and look at the logs and the result table."""
    seen: list[str] = []

    def sink(rows: DataFrame, number: int) -> None:
        input_table = context.spark.read.schema(SCHEMA).json(context.path("input"))
        result, whole = format_table(rows), format_table(counts(input_table))
        seen.append(f"batch {number} runs: {logs(context)}; the result table\n{result}")
        seen.append(f"the same as the query over the input table so far: {result == whole}")

    writer = counts(context.stream(SCHEMA)).writeStream.outputMode("complete").foreachBatch(sink)
    writer = writer.option("checkpointLocation", context.path("checkpoint"))
    with started(writer) as query:
        for files in (["1.json"], ["2.json"], []):
            context.add_files(*files)
            query.processAllAvailable()
            yield "\n".join([files[0] if files else "nothing new", *(seen or ["no batch"])])
            yield f"afterwards: {logs(context)}"
            seen.clear()
        batches = [batch for batch in query.recentProgress if batch.numInputRows]
    yield f"batches in the progress: {[batch.batchId for batch in batches]}; durations of"
    for step, names in STEPS.items():
        took = [sum(batch.durationMs[name] for name in names) for batch in batches]
        yield f"  {step:<6}  {', '.join(names)}"
        context.measurements.append(f"{step} of batches 0 and 1: {took} ms")
