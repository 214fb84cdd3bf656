"""Run a stream without a broker: each list of rows is a file, and each file is a batch."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

Rows = list[dict[str, Any]]


def run_stream(
    spark: SparkSession,
    folder: Path,
    batches: Sequence[DataFrame],
    table: Callable[[DataFrame], DataFrame],
    output_mode: str = "update",
) -> list[Rows]:
    """Run a query over the batches as a stream; return its rows, one list per batch that ran.

    A batch without data may follow the last one; there the watermark takes effect.
    """
    return run_streams(spark, folder, [batches], table, output_mode)


def run_streams(
    spark: SparkSession,
    folder: Path,
    sources: Sequence[Sequence[DataFrame]],
    table: Callable[..., DataFrame],
    output_mode: str = "append",
) -> list[Rows]:
    """Run a query over several streams; each batch takes the next rows of each of them."""
    streams = []
    for number, batches in enumerate(sources):
        for batch in batches:
            _add(folder / f"files-{number}", batch)
        streams.append(_stream(spark, folder / f"files-{number}", batches[0]))
    found: list[Rows] = []
    query = _start(table(*streams), folder, output_mode, found, available_now=True)
    assert query.awaitTermination(120), "the stream did not end"
    return found


class LiveStream:
    """A stream that waits for more rows, and takes each list of rows as a batch."""

    def __init__(self, folder: Path, query: StreamingQuery, found: list[Rows]) -> None:
        self.folder, self.query, self.found = folder, query, found

    def add(self, batch: DataFrame) -> None:
        """Add rows without waiting; `found` has the output, one list per batch that ran."""
        _add(self.folder / "files-0", batch)

    def take(self, batch: DataFrame) -> list[Rows]:
        """Add rows and wait until they are processed; return one list per batch that ran."""
        before = len(self.found)
        self.add(batch)
        self.query.processAllAvailable()
        return self.found[before:]


@contextmanager
def live_stream(
    spark: SparkSession,
    folder: Path,
    first: DataFrame,
    table: Callable[[DataFrame], DataFrame],
    output_mode: str = "update",
) -> Iterator[LiveStream]:
    """Run a query over a stream of rows like `first`, which is still empty."""
    (folder / "files-0").mkdir(parents=True)
    found: list[Rows] = []
    stream = _stream(spark, folder / "files-0", first)
    query = _start(table(stream), folder, output_mode, found, available_now=False)
    try:
        yield LiveStream(folder, query, found)
    finally:
        query.stop()


def _add(files: Path, batch: DataFrame) -> None:
    files.mkdir(parents=True, exist_ok=True)
    number = len(list(files.iterdir()))
    written = files.with_name(f"{files.name}-{number}-written")
    batch.coalesce(1).write.parquet(str(written))
    (part,) = written.glob("*.parquet")
    os.utime(part, (1_700_000_000 + number, 1_700_000_000 + number))
    part.rename(files / f"{number}.parquet")


def _stream(spark: SparkSession, files: Path, like: DataFrame) -> DataFrame:
    return spark.readStream.schema(like.schema).option("maxFilesPerTrigger", 1).parquet(str(files))


def _start(
    table: DataFrame, folder: Path, output_mode: str, found: list[Rows], *, available_now: bool
) -> StreamingQuery:
    def take(rows: DataFrame, _number: int) -> None:
        found.append([row.asDict(recursive=True) for row in rows.collect()])

    writer = (
        table.writeStream.foreachBatch(take)
        .outputMode(output_mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
    )
    triggered = writer.trigger(availableNow=True) if available_now else writer
    return triggered.start()
