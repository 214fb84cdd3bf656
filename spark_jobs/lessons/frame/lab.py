"""What a lesson is given: a session, an empty folder, its data, a broker; and how it shows rows and refusals."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_jobs.lessons.frame.broker import LazyBroker

PATIENCE_S = 180
"""How long something may take that takes a second on an idle machine."""

FIRST_ARRIVAL = 1_700_000_000
"""Files get the seconds from here on as their times of change: Spark takes them in that order."""


@dataclass
class Lab:
    """Where one lesson works. Whatever it writes lies in `folder`, which was empty when it began."""

    spark: SparkSession
    folder: Path
    data: Path
    broker: LazyBroker
    console_file: Path
    _arrivals: Iterator[int] = field(default_factory=lambda: count(FIRST_ARRIVAL))
    _console_at: int = 0

    def path(self, name: str) -> str:
        """Return the path of something in the lesson's folder, as text."""
        return str(self.folder / name)

    def arrive(self, *names: str, into: str = "input") -> str:
        """Let files of the lesson's data arrive in a folder, whole and in this order; return the folder's path."""
        for name in names:
            self.write((self.data / name).read_bytes(), f"{into}/{Path(name).name}")
        (self.folder / into).mkdir(parents=True, exist_ok=True)
        return self.path(into)

    def write(self, content: str | bytes, name: str) -> None:
        """Let a file with this content arrive: written beside, then renamed, so that nobody reads half of it."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        at = next(self._arrivals)
        os.utime(part, (at, at))
        part.rename(target)

    def stream(self, schema: str, *names: str, into: str = "input") -> DataFrame:
        """Return files of JSON lines as a stream that takes one file a batch; the named files are there already."""
        folder = self.arrive(*names, into=into)
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder)

    def remove(self, name: str) -> None:
        """Remove a file with Hadoop's checksum beside it, or a folder with all that is in it."""
        target = self.folder / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def copy(self, name: str, to: str) -> str:
        """Copy a folder, return the copy's path."""
        return str(shutil.copytree(self.folder / name, self.folder / to))

    def console(self) -> str:
        """Return what Spark wrote to the console since the last call."""
        text = self.console_file.read_text(encoding="utf-8")
        new, self._console_at = text[self._console_at :], len(text)
        return new.strip()

    def batches(
        self, rows: DataFrame, mode: str = "append", checkpoint: str = "checkpoint", *, progress: bool = False
    ) -> Iterator[str]:
        """Run a stream over all there is (available-now); give each batch's rows as a table, then its progress."""
        shown = Batches()
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", self.path(checkpoint))
        query = writer.foreachBatch(shown).trigger(availableNow=True).start()
        finish(query)
        yield from shown.texts
        if progress:
            yield progress_table(query)


class Batches:
    """A function for `foreachBatch` that keeps each batch as text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Keep the rows of a batch."""
        self.texts.append(f"batch {number}\n{table(rows)}")

    def new(self) -> str:
        """Return the batches since the last call."""
        texts, self.texts = self.texts, []
        return "\n".join(texts) or "no batch"


@contextmanager
def started(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """Start a query, and stop it in the end, whatever happens in between."""
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def finish(query: StreamingQuery) -> None:
    """Wait until a query has ended by itself, as available-now does; raise its exception if it failed."""
    try:
        if not query.awaitTermination(PATIENCE_S):
            raise AssertionError(f"the query had not ended after {PATIENCE_S} s")
    finally:
        query.stop()


def wait_until(condition: Callable[..., object], *arguments: object) -> None:
    """Wait until something is so of the arguments; only for what Spark does at times of its own choice."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition(*arguments):
        if time.monotonic() > deadline:
            raise AssertionError(f"not so after {PATIENCE_S} s")
        time.sleep(0.02)


def progress_table(query: StreamingQuery) -> str:
    """Return what a query tells of its batches: rows read, watermark used, rows dropped as late, rows of state."""
    cells = []
    for batch in query.recentProgress:
        if "addBatch" not in batch.durationMs:
            continue  # it only says that there was nothing to do
        state = batch.stateOperators
        watermark = batch.eventTime.get("watermark", "")[:19].replace("T", " ")
        dropped = sum(operator.numRowsDroppedByWatermark for operator in state)
        kept = sum(operator.numRowsTotal for operator in state)
        cells.append(
            [str(x) for x in (batch.batchId, batch.numInputRows, watermark or "none", dropped, kept)]
        )
    return text_table(["batch", "rows in", "watermark", "dropped", "state rows"], cells)


def table(rows: DataFrame, *, ordered: bool = False) -> str:
    """Return rows as text, times in the session's zone; sorted, as a result has no order unless it is `ordered`."""
    texts = rows.select(*[F.col(f"`{name}`").cast("string").alias(name) for name in rows.columns]).collect()
    cells = [["null" if cell is None else str(cell) for cell in row] for row in texts]
    return text_table(
        rows.columns, cells if ordered else sorted(cells, key=lambda r: [_natural(c) for c in r])
    )


def text_table(names: list[str], cells: list[list[str]]) -> str:
    """Return a table as text: two spaces between columns, `(no rows)` without any."""
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [names, *(cells or [["(no rows)"] + [""] * (len(names) - 1)])]
    ]
    return "\n".join("  " + line for line in lines)


def outcome(action: Callable[[], object], *, start_only: bool = False) -> str:
    """Try something; return `allowed`, or Spark's words of refusal.

    A query runs until it has read all there is, or with `start_only` not at all: what Spark knows to be wrong, it
    refuses before.
    """
    try:
        query = action()
        if isinstance(query, StreamingQuery):
            try:
                if not start_only:
                    query.processAllAvailable()
            finally:
                query.stop()
    except PySparkException as error:
        return "refused, " + reason(error)
    return "allowed"


def outcomes(attempts: Iterable[tuple[str, Callable[[], object]]], *, start_only: bool = False) -> str:
    """Try several things; return a line for each."""
    tried = [(name, outcome(action, start_only=start_only)) for name, action in attempts]
    width = max(len(name) for name, _ in tried)
    return "\n".join(f"  {name.ljust(width)}  {said}" for name, said in tried)


def reason(error: Exception) -> str:
    """Return the innermost condition that Spark names and its first sentence, without what differs between runs."""
    text = re.sub(r"SQLSTATE: \w+", "", str(error))
    text = text.rpartition("terminated with exception: ")[2]
    text = re.sub(r"#\d+L?|[\w-]*\[id = .*?\]", "", text)
    text = re.sub(r"file:/\S+", "...", text)
    text = re.sub(r"Streaming real-time mode has the following limitation:\s*", "", text)
    text = re.sub(r"org\.apache\.spark\.(?:[a-z]\w*\.)*", "", text)
    found = re.match(r"\[([A-Z_0-9.]+)\]\s*(.*)", text, re.DOTALL)
    condition, message = found.groups() if found else ("", text)
    sentence = re.split(r"(?<=[.;])\s|\n", message.strip())[0].rstrip(".:; ")
    return f"{condition}: {sentence}" if condition else sentence


def _natural(cell: str) -> tuple[int, float, str]:
    try:
        return (0, float(cell), "")
    except ValueError:
        return (1, 0.0, cell)
