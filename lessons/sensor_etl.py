"""A sensor ETL: JSON to a Parquet sink with file name and processing time, bad records apart.

The first query of a chain of four lessons. It has a name and a checkpoint, reads one file every
five seconds, adds two columns, and appends to a Parquet folder. A second query over the same input
keeps the records that cannot be parsed, with their raw text.

A Parquet folder can be written in two ways. The sink (`format("parquet")`) has a log of its batches
(lesson parquet_sink), and skips a batch that the log has. `foreachBatch` with an append writes the
same rows, but has no such log: a batch that is repeated after a crash is there twice, and exactly
once is lost. Here the last commit is deleted, so that both repeat their second batch.

Published versions set bad records apart with `badRecordsPath`. Open-source Spark ignores this
option (lesson bad_records).

Notice: The repeated batch added nothing to the sink's folder, and its ten rows again to the other.
The bad records keep their raw text and their file name, so they can be corrected and sent again.
`current_timestamp` is the start of the batch, the same for all its rows.
In production: `dead_letters` writes the records that no job can read to the topic `dead-letters`.
"""

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, await_end, format_table, started, wait_until

DATA = Path(__file__).parent / "data" / "sensor_etl"
SCHEMA = "timestamp timestamp, deviceId long, deviceType string, signalStrength double"
CORRUPT = "_corrupt_record"
WRITTEN_SCHEMA = f"{SCHEMA}, INPUT_FILE_NAME string, PROCESSED_TIME timestamp"


def records(context: LessonContext, *files: str) -> DataFrame:
    """Return a stream of the sensors' JSON files, one per batch, with the two added columns.

    Records that cannot be parsed have their raw text in `_corrupt_record`.
    """
    stream = context.stream(f"{SCHEMA}, {CORRUPT} string", *(str(DATA / file) for file in files))
    return stream.withColumns(
        {"INPUT_FILE_NAME": F.input_file_name(), "PROCESSED_TIME": F.current_timestamp()}
    )


def etl(context: LessonContext, *files: str) -> DataStreamWriter:
    """Return the query `etl`: the good records of JSON files into the folder `parquet`."""
    good = records(context, *files).where(f"{CORRUPT} IS NULL").drop(CORRUPT)
    sink = good.writeStream.format("parquet").queryName("etl").option("path", written(context))
    return sink.option("checkpointLocation", context.path("etl-checkpoint"))


def written(context: LessonContext) -> str:
    """Return the path of the folder that the ETL writes; create it if it does not exist."""
    (context.folder / "parquet").mkdir(exist_ok=True)
    return context.path("parquet")


def sensors(context: LessonContext) -> DataFrame:
    """Return the second stream of the chain, over the ETL's folder, one file per batch."""
    reader = context.spark.readStream.schema(WRITTEN_SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(written(context))


def rows_read(query: StreamingQuery) -> list[int]:
    """Return the number of rows that each batch has read; idle reports are no batches."""
    return [batch.numInputRows for batch in query.recentProgress if batch.numInputRows]


def run(context: LessonContext) -> Iterator[str]:
    """Run the ETL over two files, and repeat the second batch of it and of foreachBatch."""
    sink = etl(context, "1.json", "2.json")
    with started(sink.trigger(processingTime="5 seconds")) as query:
        wait_until(lambda: len(rows_read(query)) == 2)
        yield f"query {query.name}: rows per batch {rows_read(query)}"
    rows = context.spark.read.parquet(written(context))
    file = F.substring_index("INPUT_FILE_NAME", "/", -1).alias("file")
    yield f"columns: {', '.join(rows.columns)}"
    times = F.count_distinct("PROCESSED_TIME").alias("processing times")
    yield format_table(rows.groupBy(file).agg(F.count("*").alias("rows"), times))

    bad = records(context).where(f"{CORRUPT} IS NOT NULL").writeStream.format("memory")
    await_end(bad.queryName("bad").trigger(availableNow=True).start())
    yield f"bad records\n{format_table(context.spark.table('bad').select(CORRUPT, file))}"

    appended = context.path("appended")
    by_function = (
        records(context)
        .where(f"{CORRUPT} IS NULL")
        .writeStream.foreachBatch(
            lambda batch, _number: batch.write.mode("append").parquet(appended)
        )
    )
    by_function = by_function.option("checkpointLocation", context.path("function-checkpoint"))
    await_end(by_function.trigger(availableNow=True).start())
    for name, writer, folder, checkpoint in (
        ("the Parquet sink", sink, written(context), "etl-checkpoint"),
        ("foreachBatch", by_function, appended, "function-checkpoint"),
    ):
        before = context.spark.read.parquet(folder).count()
        context.remove(f"{checkpoint}/commits/1")
        await_end(writer.trigger(availableNow=True).start())
        after = context.spark.read.parquet(folder).count()
        yield f"{name}: {before} rows; after a repeated batch {after}"
