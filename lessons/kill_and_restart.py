"""Kill a query during a batch and restart it: the output is the same as without the kill.

A separate process runs the query. It is killed with SIGKILL when its second batch has written its
output but has not committed. The query then restarts from the checkpoint. It repeats that batch
with the same rows, because the offsets were written before the batch.

Notice: The second batch was written twice with the same contents. Where a batch replaces its
earlier output (here a file per batch), the result equals that of a run without a kill.
In production: The tests kill jobs at every stage. Alerts of `overheating` repeat with the same
`alert_id`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

from pyspark.sql import DataFrame, SparkSession

from events import settings
from jars.java import QUICK_JAVA
from lessons.harness.context import LessonContext, await_end, format_table, wait_until
from spark_jobs.runtime import cds_archive
from spark_jobs.runtime.session import new_session


def totals(spark: SparkSession, folder: Path, hang_in: int | None, name: str = "out") -> None:
    """Sum amounts per user, writing each batch to a file; hang after writing batch `hang_in`."""

    def write(rows: DataFrame, number: int) -> None:
        with (folder / "written.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name} {number}\n")
        (folder / f"{name}-{number}.txt").write_text(format_table(rows), encoding="utf-8")
        if number == hang_in:
            (folder / "hanging").touch()
            Event().wait()

    amounts = spark.readStream.schema("user string, amount long").option("maxFilesPerTrigger", 1)
    sums = (
        amounts.json(str(folder / "input"))
        .groupBy("user")
        .sum("amount")
        .writeStream.outputMode("complete")
    )
    checkpoint = str(folder / f"checkpoint of {name}")
    await_end(
        sums.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def run(context: LessonContext) -> Iterator[str]:
    """Kill the query in its second batch, start it again, and compare with a run without a kill."""
    context.add_files("1.json", "2.json", "3.json")
    command = [sys.executable, "-m", "lessons.kill_and_restart", str(context.folder)]
    jars = {
        "RACKSTREAM_JARS": str(settings.load().jars_dir.resolve()),
        "RACKSTREAM_HOME": str(context.folder / "home"),
    }
    with subprocess.Popen(command, start_new_session=True, env=os.environ | jars) as process:
        try:
            wait_until(lambda: (context.folder / "hanging").exists() or process.poll() is not None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # Python and its JVM at once
    commits = sorted(
        p.name for p in (context.folder / "checkpoint of out/commits").iterdir() if p.name.isdigit()
    )
    yield f"after the kill: written {_written(context)}, committed {commits}"
    totals(context.spark, context.folder, None)
    yield f"after the restart: written {_written(context)}"
    totals(context.spark, context.folder, None, "without-kill")
    same = [
        _read(context, f"out-{number}") == _read(context, f"without-kill-{number}")
        for number in range(3)
    ]
    yield f"each batch equals the run without a kill: {same}"
    yield _read(context, "out-2")


def _written(context: LessonContext) -> list[str]:
    return (context.folder / "written.txt").read_text(encoding="utf-8").splitlines()


def _read(context: LessonContext, name: str) -> str:
    return (context.folder / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    config = settings.load()
    java_options = f"{cds_archive.java_options(config)} {QUICK_JAVA}"
    totals(new_session(config, 2, 1, java_options=java_options), Path(sys.argv[1]), hang_in=1)
