"""foreach: your own code runs for every row, in the Python workers.

`foreach` takes a function or an object. The function is called with each row. The object is opened
for each partition of each batch, called with each row, and closed, with the error if there was one.
Both run in worker processes, so variables of the driver do not change.

Notice: The list in the driver stays empty. `open` receives partition and batch number, which
together identify the output: a repeated batch has the same pair.
In production: No job uses it. A topic is the better sink, and `alerting` acts on it once per alert.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row

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


def run(context: LessonContext) -> Iterator[str]:
    """Process two batches with a function and with an object."""
    devices = context.stream("device string, signal double", "1.json", "2.json")
    rows: list[Row] = []
    await_end(devices.writeStream.foreach(rows.append).trigger(availableNow=True).start())
    yield f"the list that the function appended to: {rows}"
    log = context.folder / "log"
    log.mkdir()
    await_end(devices.writeStream.foreach(CallLog(log)).trigger(availableNow=True).start())
    yield "calls that the object logged"
    yield "".join(path.read_text(encoding="utf-8") for path in sorted(log.iterdir())).rstrip()
