"""foreach: your own code for every row, in the Python workers.

A function is called with each row. An object is opened for each partition of each batch, told each row, and closed,
also after an error, which it is given. Both run in worker processes: what they change in variables stays there.

Notice: The list in the driver stays empty. `open` is told batch and partition, which together name what was written:
the same pair comes again when a batch is repeated.
In production: No job uses it: a topic is the better sink, and `alerting` acts on it once per alert.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from spark_jobs.lessons.frame.lab import Lab, finish


class Diary:
    """Writes down what it is told, a file for each partition of each batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, partition: int, batch: int) -> bool:
        """Begin a partition of a batch; False would leave it out."""
        self.file = (self.folder / f"{batch}-{partition}.txt").open("w", encoding="utf-8")
        self.file.write(f"  open partition {partition} of batch {batch}\n")
        return True

    def process(self, row: Row) -> None:
        """Take a row."""
        self.file.write(f"  process {row.device} {row.signal}\n")

    def close(self, error: Any) -> None:
        """End the partition; `error` is what ended it early."""
        self.file.write(f"  close, error: {error}\n")
        self.file.close()


def run(lab: Lab) -> Iterator[str]:
    """Give two batches to a function and to an object."""
    devices = lab.stream("device string, signal double", "1.json", "2.json")
    seen: list[Row] = []
    finish(devices.writeStream.foreach(seen.append).trigger(availableNow=True).start())
    yield f"the list that the function appended to: {seen}"
    diary = lab.folder / "diary"
    diary.mkdir()
    finish(devices.writeStream.foreach(Diary(diary)).trigger(availableNow=True).start())
    yield "what the object wrote down"
    yield "".join(path.read_text(encoding="utf-8") for path in sorted(diary.iterdir())).rstrip()
