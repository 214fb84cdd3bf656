"""Parquet files as a sink: append only, and a list of the files that count.

A file cannot be changed, so a file sink takes append and nothing else. Beside the data it keeps `_spark_metadata`,
the list of files by batch; Spark reads only what is on it, so a file of a batch that died half way is not seen.

Notice: A file that is not on the list is invisible to Spark, and visible to every other program. Each batch makes at
least one file: short batches make small files, for which somebody has to pay later.
In production: `archive` writes Parquet by day in larger batches.
"""

import shutil
from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab, finish, outcomes, table


def run(lab: Lab) -> Iterator[str]:
    """Write two batches, add a file that is on no list, and try the other output modes."""
    readings = lab.stream("rack string, temperature double", "1.json", "2.json")
    out = lab.path("out")
    finish(readings.writeStream.format("parquet").option("path", out).trigger(availableNow=True).start())
    lists = sorted(path.name for path in (lab.folder / "out/_spark_metadata").glob("[!.]*"))
    yield f"in _spark_metadata: {', '.join(lists)}"
    yield table(lab.spark.read.parquet(out))
    part = min((lab.folder / "out").glob("part-00000-*.parquet"))
    shutil.copy(part, part.with_name("part-from-a-batch-that-died.parquet"))
    files = list((lab.folder / "out").glob("*.parquet"))
    yield f"{len(files)} files are there, Spark reads {lab.spark.read.parquet(out).count()} rows"
    counts = readings.groupBy("rack").count()
    yield outcomes(
        (mode, counts.writeStream.outputMode(mode).format("parquet").option("path", lab.path(mode)).start)
        for mode in ("update", "complete")
    )
