"""An ETL: sensor JSON to Parquet with file name and processing time, bad records apart.

The query reads one file every five seconds. Records that cannot be parsed go to a separate folder
as raw text. The others get two columns, file name and processing time, and go to Parquet.

Notice: The bad records keep their raw text and their file name, so they can be corrected and sent
again. `current_timestamp` is the start of the batch, the same for all its rows.
In production: The jobs route records they cannot read to `dead-letters`, with topic, partition and
offset.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, format_table, started

SCHEMA = "timestamp timestamp, deviceId long, deviceType string, signalStrength double"
CORRUPT = "_corrupt_record"


def enriched(records: DataFrame) -> DataFrame:
    """Add `INPUT_FILE_NAME` and `PROCESSED_TIME` to records of a file source."""
    return records.withColumns(
        {"INPUT_FILE_NAME": F.input_file_name(), "PROCESSED_TIME": F.current_timestamp()}
    )


def write_separately(records: DataFrame, good: str, bad: str) -> None:
    """Append the parsed records of a batch to one Parquet folder and bad ones to another."""
    records.persist()
    is_bad = F.col(CORRUPT).isNotNull()
    records.where(~is_bad).drop(CORRUPT).write.mode("append").parquet(good)
    records.where(is_bad).select(CORRUPT, "INPUT_FILE_NAME").write.mode("append").parquet(bad)
    records.unpersist()


def run(context: LessonContext) -> Iterator[str]:
    """Run the ETL over two files and show its output."""
    good, bad = context.path("parquet"), context.path("bad")
    records = context.stream(f"{SCHEMA}, {CORRUPT} string", "1.json", "2.json")
    writer = enriched(records).writeStream.foreachBatch(
        lambda rows, _number: write_separately(rows, good, bad)
    )
    with started(writer.trigger(processingTime="5 seconds")) as query:
        query.processAllAvailable()
    file_name = F.substring_index("INPUT_FILE_NAME", "/", -1).alias("file")
    written = context.spark.read.parquet(good)
    columns: list[Column | str] = [
        "deviceId",
        "deviceType",
        "signalStrength",
        F.date_format("timestamp", "HH:mm:ss").alias("timestamp"),
    ]
    yield f"columns: {', '.join(written.columns)}"
    yield format_table(written.select(*columns, file_name))
    processing_times = written.groupBy(file_name).agg(
        F.count_distinct("PROCESSED_TIME").alias("processing times")
    )
    yield format_table(processing_times)
    yield "bad records"
    yield format_table(context.spark.read.parquet(bad).select(CORRUPT, file_name))
