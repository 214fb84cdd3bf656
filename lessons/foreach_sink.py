"""foreach: your own code runs for every row, in the Python workers.

`foreach` takes a function or an object. The function is called with each row. The object is opened
for each partition of each batch, called with each row, and closed, with the error if there was one.
Both run in worker processes, so variables of the driver do not change.

PySpark's reference says that a pair of partition and batch number always has the same rows, so that
a sink could skip a pair it has seen. The reference of Scala's `ForeachWriter` corrected this
(SPARK-28650): a repeated batch has the same rows, but may divide them otherwise. To skip a repeated
batch, use `foreachBatch` and the batch number (lesson idempotent_upsert).

Notice: The list in the driver stays empty. The lesson then deletes a commit and runs the batch
again with smaller splits of a file. Now partition 0 has only the first row, and partition 1 has the
second. A sink that skipped the pair of partition 0 and batch 0 would write the second row again.
In production: No job uses it. A topic is the better sink, and `alerting` acts on it once per alert.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row

from lessons.harness.context import LessonContext, await_end


class CallLog:
    """Logs the calls that Spark makes, in one file per partition of each batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, partition: int, batch: int) -> bool:
        """Start a partition of a batch; returning False would skip it."""
        self.file = (self.folder / f"{batch}-{partition}.txt").open("w", encoding="utf-8")
        self.file.write(f"  open partition {partition} of batch {batch}\n")
        return True

    def process(self, row: Row) -> None:
        """Process a row."""
        self.file.write(f"  process {row.device} {row.signal}\n")

    def close(self, error: Any) -> None:
        """End the partition, with the error if there was one."""
        self.file.write(f"  close, error: {error}\n")
        self.file.close()


def logged(context: LessonContext, devices: DataFrame, name: str) -> str:
    """Process a stream with the object, and return the calls that it logged."""
    log = context.folder / name
    log.mkdir()
    writer = devices.writeStream.foreach(CallLog(log)).trigger(availableNow=True)
    if name != "log":
        writer = writer.option("checkpointLocation", context.path("checkpoint"))
    await_end(writer.start())
    return "".join(path.read_text(encoding="utf-8") for path in sorted(log.iterdir())).rstrip()


def run(context: LessonContext) -> Iterator[str]:
    """Process two batches with a function and an object; run one again with smaller splits."""
    devices = context.stream("device string, signal double", "1.json", "2.json")
    rows: list[Row] = []
    await_end(devices.writeStream.foreach(rows.append).trigger(availableNow=True).start())
    yield f"the list that the function appended to: {rows}"
    yield "calls that the object logged"
    yield logged(context, devices, "log")
    one_file = context.stream("device string, signal double", "1.json", into="one file")
    yield "a batch of one file"
    yield logged(context, one_file, "before")
    context.remove("checkpoint/commits/0")
    context.spark.conf.set("spark.sql.files.maxPartitionBytes", 30)
    yield "the same batch again, with smaller splits"
    yield logged(context, one_file, "after")
