"""Give a lesson its context (session, folder, data, broker), and format results."""

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

from lessons.harness.broker import LazyBroker

TIMEOUT_S = 180
"""Limit for each wait; on an idle machine a wait takes about a second."""

FIRST_MODIFIED = 1_700_000_000
"""Modification time of a lesson's first file; each later file is a second newer.

Spark reads files in the order of their modification times.
"""


@dataclass
class LessonContext:
    """What one lesson works with; it writes only below `folder`, which is empty at its start."""

    spark: SparkSession
    folder: Path
    data: Path
    broker: LazyBroker
    console_file: Path
    measurements: list[str] = field(default_factory=list)
    """Figures that differ from run to run: they are printed, but not compared."""
    _modified: Iterator[int] = field(default_factory=lambda: count(FIRST_MODIFIED))
    _console_read: int = 0

    def path(self, name: str) -> str:
        """Return the path of a file or folder in the lesson's folder, as text."""
        return str(self.folder / name)

    def add_files(self, *names: str, into: str = "input") -> str:
        """Copy files of the lesson's data into an input folder, in order; return its path."""
        for name in names:
            self.add_file((self.data / name).read_bytes(), f"{into}/{Path(name).name}")
        (self.folder / into).mkdir(parents=True, exist_ok=True)
        return self.path(into)

    def add_file(self, content: str | bytes, name: str) -> None:
        """Write a file under a hidden name, then rename it, so Spark never reads half of it."""
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        modified = next(self._modified)
        os.utime(part, (modified, modified))
        part.rename(target)

    def stream(self, schema: str, *names: str, into: str = "input") -> DataFrame:
        """Return a stream of JSON files, one per batch, that starts with the named files."""
        folder = self.add_files(*names, into=into)
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder)

    def remove(self, name: str) -> None:
        """Remove a file and its Hadoop checksum file, or a folder and its contents."""
        target = self.folder / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
            target.with_name(f".{target.name}.crc").unlink(missing_ok=True)

    def copy(self, name: str, to: str) -> str:
        """Copy a folder and return the path of the copy."""
        return str(shutil.copytree(self.folder / name, self.folder / to))

    def console_output(self) -> str:
        """Return Spark's console output since the last call."""
        text = self.console_file.read_text(encoding="utf-8")
        new, self._console_read = text[self._console_read :], len(text)
        return new.strip()

    def run_batches(
        self,
        rows: DataFrame,
        mode: str = "append",
        checkpoint: str = "checkpoint",
        *,
        progress: bool = False,
    ) -> Iterator[str]:
        """Run a stream with available-now; yield each batch as a table, then the progress."""
        collector = BatchCollector()
        writer = rows.writeStream.outputMode(mode).option(
            "checkpointLocation", self.path(checkpoint)
        )
        query = writer.foreachBatch(collector).trigger(availableNow=True).start()
        await_end(query)
        yield from collector.texts
        if progress:
            yield progress_table(query)


class BatchCollector:
    """A function for `foreachBatch` that formats and keeps each batch."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Format the rows of a batch."""
        self.texts.append(f"batch {number}\n{format_table(rows)}")

    def take(self) -> str:
        """Return the batches since the last call."""
        texts, self.texts = self.texts, []
        return "\n".join(texts) or "no batch"


def has_committed(checkpoint: Path, offsets: str) -> bool:
    """Say whether a committed batch, or epoch, of a query has a text in its offsets."""
    committed = (checkpoint / "commits").glob("[0-9]*")
    return any(offsets in (checkpoint / "offsets" / path.name).read_text() for path in committed)


@contextmanager
def started(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """Start a query, and stop it when the block ends."""
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def await_end(query: StreamingQuery) -> None:
    """Wait until an available-now query ends; raise its exception if it failed."""
    try:
        if not query.awaitTermination(TIMEOUT_S):
            raise AssertionError(f"the query did not end within {TIMEOUT_S} s")
    finally:
        query.stop()


def wait_until(condition: Callable[..., object], *arguments: object) -> None:
    """Wait until the condition holds for the arguments; fail after `TIMEOUT_S`."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        began = time.monotonic()
        if condition(*arguments):
            return
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"the condition did not hold within {TIMEOUT_S} s")
        # A condition that runs a Spark job would keep the processors from what it waits for.
        time.sleep(min(0.5, max(0.02, 2 * (now - began))))


def progress_table(query: StreamingQuery) -> str:
    """Return a table of a query's batches: rows read, watermark, late rows dropped, state rows."""
    cells = []
    for batch in query.recentProgress:
        if "addBatch" not in batch.durationMs:
            continue  # an idle report, not a batch
        state = batch.stateOperators
        watermark = batch.eventTime.get("watermark", "")[:19].replace("T", " ")
        dropped = sum(operator.numRowsDroppedByWatermark for operator in state)
        state_rows = sum(operator.numRowsTotal for operator in state)
        cells.append(
            [
                str(x)
                for x in (
                    batch.batchId,
                    batch.numInputRows,
                    watermark or "none",
                    dropped,
                    state_rows,
                )
            ]
        )
    return format_cells(["batch", "rows in", "watermark", "dropped", "state rows"], cells)


def format_table(rows: DataFrame, *, ordered: bool = False) -> str:
    """Return rows as a text table, sorted unless `ordered`; times in the session's zone."""
    texts = rows.select(
        *[F.col(f"`{name}`").cast("string").alias(name) for name in rows.columns]
    ).collect()
    cells = [["null" if cell is None else str(cell) for cell in row] for row in texts]
    return format_cells(
        rows.columns, cells if ordered else sorted(cells, key=lambda r: [_sort_key(c) for c in r])
    )


def format_cells(names: list[str], cells: list[list[str]]) -> str:
    """Return cells as a text table with two spaces between columns, or `(no rows)`."""
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [names, *(cells or [["(no rows)"] + [""] * (len(names) - 1)])]
    ]
    return "\n".join("  " + line for line in lines)


def outcome(action: Callable[[], object], *, start_only: bool = False) -> str:
    """Run an action; return `allowed`, or `refused` with Spark's error.

    A query runs until it has read all available data. With `start_only` it is stopped at once:
    that is enough where Spark refuses the query when it starts.
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
        return "refused, " + error_summary(error)
    return "allowed"


def outcomes(
    attempts: Iterable[tuple[str, Callable[[], object]]], *, start_only: bool = False
) -> str:
    """Run several actions; return a line with the outcome of each."""
    results = [(name, outcome(action, start_only=start_only)) for name, action in attempts]
    width = max(len(name) for name, _ in results)
    return "\n".join(f"  {name.ljust(width)}  {result}" for name, result in results)


def error_summary(error: Exception) -> str:
    """Return Spark's innermost error condition and first sentence, the same in every run."""
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


def _sort_key(cell: str) -> tuple[int, float, str]:
    try:
        return (0, float(cell), "")
    except ValueError:
        return (1, 0.0, cell)
