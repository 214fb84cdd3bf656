"""Killed in the middle of a batch, and started again: the same output as without.

A process of its own runs the query and is killed, as by a power cut, when its second batch has written its output and
not yet committed. The query is then started again from the checkpoint. It repeats that batch, with the same rows,
since what it was to read was written down before.

Notice: The second batch was written twice, with the same contents; where a batch replaces what it wrote before (a
file of its own here), the output is that of a run without a kill.
In production: The tests kill jobs at every stage; alerts repeat with the same `alert_id`.
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
from spark_jobs.lessons.frame.lab import Lab, finish, table, wait_until
from spark_jobs.session import new_session


def totals(spark: SparkSession, folder: Path, hang_in: int | None, name: str = "out") -> None:
    """Sum up amounts per user, a file a batch, each batch into a file; hang after writing the batch of this number."""

    def write(rows: DataFrame, number: int) -> None:
        with (folder / "written.txt").open("a", encoding="utf-8") as file:
            file.write(f"{name} {number}\n")
        (folder / f"{name}-{number}.txt").write_text(table(rows), encoding="utf-8")
        if number == hang_in:
            (folder / "hangs").touch()
            Event().wait()

    amounts = spark.readStream.schema("user string, amount long").option("maxFilesPerTrigger", 1)
    sums = (
        amounts.json(str(folder / "input")).groupBy("user").sum("amount").writeStream.outputMode("complete")
    )
    checkpoint = str(folder / f"checkpoint of {name}")
    finish(
        sums.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    )


def run(lab: Lab) -> Iterator[str]:
    """Kill the query in its second batch, start it again, and compare with a run without a kill."""
    lab.arrive("1.json", "2.json", "3.json")
    command = [sys.executable, "-m", "spark_jobs.lessons.kill_and_restart", str(lab.folder)]
    jars = {
        "RACKSTREAM_JARS": str(settings.load().jars_dir.resolve()),
        "RACKSTREAM_HOME": str(lab.folder / "home"),
    }
    with subprocess.Popen(command, start_new_session=True, env=os.environ | jars) as process:
        try:
            wait_until(lambda: (lab.folder / "hangs").exists() or process.poll() is not None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # Python and its JVM at once
    commits = sorted(p.name for p in (lab.folder / "checkpoint of out/commits").iterdir() if p.name.isdigit())
    yield f"killed; written: {_written(lab)}, committed: {commits}"
    totals(lab.spark, lab.folder, None)
    yield f"started again; written: {_written(lab)}"
    totals(lab.spark, lab.folder, None, "undisturbed")
    same = [_read(lab, f"out-{at}") == _read(lab, f"undisturbed-{at}") for at in range(3)]
    yield f"each batch as without a kill: {same}"
    yield _read(lab, "out-2")


def _written(lab: Lab) -> list[str]:
    return (lab.folder / "written.txt").read_text(encoding="utf-8").splitlines()


def _read(lab: Lab, name: str) -> str:
    return (lab.folder / f"{name}.txt").read_text(encoding="utf-8")


if __name__ == "__main__":
    totals(new_session(settings.load(), 2, 1), Path(sys.argv[1]), hang_in=1)
