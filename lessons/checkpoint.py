"""What a checkpoint contains, and what happens without it or without the output.

`offsets` says what each batch will read, and is written before the batch. `commits` says that the
batch is done, and is written after it. `state` holds the state of stateful operators, `sources` the
files seen, `metadata` the query's id. The checkpoint does not include the output.

Without a checkpoint location, a sink for experiments (console, memory, noop, foreach) gets a
temporary one, which Spark deletes when the query ends. A file sink is refused.

Notice: A new checkpoint reads all input again, from batch 0. The file sink still writes nothing: it
skips each batch whose number is at most the latest in its log, `_spark_metadata` (lesson
parquet_sink). New input would be lost in the same way, up to that number. That run has no state:
with state in checkpoint format 2, as here, Spark fails, because a skipped batch computes none. The
lesson then deletes the log and uses another new checkpoint: now every row is in the output twice.
With the old checkpoint and a deleted output nothing is written, because the query considers these
batches done.

A query with a temporary checkpoint starts from nothing each time. The second warning comes with
every query: adaptive execution would change the number of partitions, which state depends on.
In production: Checkpoints of `archive` and the other jobs are stored below `--checkpoint-root`, by
job, plan, state version and prefix. `archive` refuses a new checkpoint over an archive that another
one wrote.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from lessons.harness.context import LessonContext, await_end, outcome


def run(context: LessonContext) -> Iterator[str]:
    """Run with a checkpoint, again, with new ones, and with the old one but no output."""
    users = context.stream("user string", "1.json", "2.json")
    distinct = users.dropDuplicates()

    def run_with(checkpoint: str, rows: DataFrame = distinct) -> str:
        writer = rows.writeStream.format("csv").option("path", context.path("out"))
        writer = writer.option("checkpointLocation", context.path(checkpoint))
        await_end(writer.trigger(availableNow=True).start())
        files = list((context.folder / "out").glob("*.csv"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
        return f"rows in the output: {len(lines)}"

    yield f"first start: {run_with('checkpoint')}"
    for folder in sorted((context.folder / "checkpoint").iterdir()):
        if not folder.name.startswith("."):
            contents = (
                sorted(path.name for path in folder.iterdir() if path.name[0] != ".")
                if folder.is_dir()
                else "a file"
            )
            yield f"  {folder.name}: {contents}"
    yield f"again: {run_with('checkpoint')}"
    yield f"with a new checkpoint and the sink's log: {run_with('second', users)}"
    context.remove("out/_spark_metadata")
    yield f"with a new checkpoint and no log: {run_with('third')}"
    context.remove("out")
    (context.folder / "out").mkdir()
    yield f"with the old checkpoint and no output: {run_with('checkpoint')}"
    yield from _without_checkpoint(context)


def _without_checkpoint(context: LessonContext) -> Iterator[str]:
    context.spark.conf.unset("spark.sql.streaming.checkpointLocation")
    users = context.stream("user string")
    with _spark_warnings(context) as log:
        yield f"no checkpoint, to noop: {outcome(users.writeStream.format('noop').start)}"
    warnings = log.toString()
    temporary = re.search(r"\S*/temporary-[\w-]+", warnings)
    assert temporary  # noqa: S101 - the first warning names it
    for warning in warnings.replace(temporary[0], "/.../temporary-...").splitlines():
        yield f"  {warning}"
    yield f"  the folder exists after the end: {Path(temporary[0]).exists()}"
    files = users.writeStream.format("csv").option("path", context.path("more"))
    yield f"no checkpoint, to files: {outcome(files.start)}"


@contextmanager
def _spark_warnings(context: LessonContext) -> Iterator[Any]:
    """Yield a writer that receives the warnings about streaming, which are off otherwise.

    Python has no access to the log, so this goes through the JVM.
    """
    java: Any = context.spark._jvm
    log4j = java.org.apache.logging.log4j
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p: %m%n").build()
    log = java.java.io.StringWriter()
    appender = log4j.core.appender.WriterAppender.createAppender(
        layout, None, log, "lesson", False, True
    )
    appender.start()
    loggers = log4j.LogManager.getContext(False)
    logger = loggers.getConfiguration().getLoggerConfig("org.apache.spark.sql.execution.streaming")
    level = logger.getLevel()
    logger.addAppender(appender, log4j.Level.WARN, None)
    logger.setLevel(log4j.Level.WARN)
    loggers.updateLoggers()
    try:
        yield log
    finally:
        logger.setLevel(level)
        logger.removeAppender("lesson")
        loggers.updateLoggers()
