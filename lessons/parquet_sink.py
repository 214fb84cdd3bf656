"""The Parquet sink: append mode only, with a log of committed files.

Files cannot be changed, so a file sink allows append mode only, in every format. Beside the data it
keeps `_spark_metadata`, a log of the files of each batch. Spark reads only files in that log, so it
ignores files of a batch that failed half-way.

Notice: Spark does not see a file that is missing from the log, but every other program does. Each
batch writes at least one file, so short batches create small files that have to be compacted later.
In production: `archive` writes Parquet by kind, date and hour, one batch a minute. `python -m
spark_jobs compact` merges the files of an hour into one, which programs other than Spark read.
"""

import shutil
from collections.abc import Iterator

from lessons.harness.context import LessonContext, await_end, format_table, outcomes


def run(context: LessonContext) -> Iterator[str]:
    """Write two batches, add a file that is not in the log, and try other output modes."""
    readings = context.stream("rack string, temperature double", "1.json", "2.json")
    out = context.path("out")
    await_end(
        readings.writeStream.format("parquet")
        .option("path", out)
        .trigger(availableNow=True)
        .start()
    )
    logs = sorted(path.name for path in (context.folder / "out/_spark_metadata").glob("[!.]*"))
    yield f"in _spark_metadata: {', '.join(logs)}"
    yield format_table(context.spark.read.parquet(out))
    part = min((context.folder / "out").glob("part-00000-*.parquet"))
    shutil.copy(part, part.with_name("part-from-a-failed-batch.parquet"))
    files = list((context.folder / "out").glob("*.parquet"))
    rows = context.spark.read.parquet(out).count()
    yield f"{len(files)} files exist, Spark reads {rows} rows"
    counts = readings.groupBy("rack").count()
    for kind in ("parquet", "json"):
        writer = counts.writeStream.format(kind).option("path", context.path(kind))
        yield f"an aggregation to {kind}"
        yield outcomes((mode, writer.outputMode(mode).start) for mode in ("update", "complete"))
