"""A stream without a broker: each list of rows is a file, each file is a batch."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def run_stream(
    spark: SparkSession,
    folder: Path,
    batches: Sequence[DataFrame],
    table: Callable[[DataFrame], DataFrame],
    output_mode: str = "update",
) -> list[list[dict[str, Any]]]:
    """Run a table over the batches as a stream; return its rows, one list per batch that ran.

    A batch without data may follow the last, in which the watermark takes effect.
    """
    files = folder / "files"
    files.mkdir(parents=True)
    for number, batch in enumerate(batches):
        batch.coalesce(1).write.parquet(str(folder / f"part-{number}"))
        (part,) = (folder / f"part-{number}").glob("*.parquet")
        part.rename(files / f"{number}.parquet")
        os.utime(files / f"{number}.parquet", (1_700_000_000 + number, 1_700_000_000 + number))
    stream = spark.readStream.schema(batches[0].schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    found: list[list[dict[str, Any]]] = []

    def take(rows: DataFrame, _number: int) -> None:
        found.append([row.asDict(recursive=True) for row in rows.collect()])

    query = (
        table(stream)
        .writeStream.foreachBatch(take)
        .outputMode(output_mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120), "the stream did not end"
    return found
