"""An ETL: sensor JSON to Parquet, with the file's name and the time of processing, bad records set aside.

Every five seconds one file is taken. Records that cannot be read go to a folder of their own, as they came; the
others get two columns, from which file and when, and go to Parquet.

Notice: The bad records are there, in their own words, with the file that they came from: they can be corrected and
sent again. `current_timestamp` is the batch's beginning, the same for all its rows.
In production: Each job writes what it cannot read to `dead-letters`, with topic, partition and offset.
"""

from collections.abc import Iterator

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, started, table

SCHEMA = "timestamp timestamp, deviceId long, deviceType string, signalStrength double"
CORRUPT = "_corrupt_record"


def enriched(records: DataFrame) -> DataFrame:
    """Add `INPUT_FILE_NAME` and `PROCESSED_TIME` to records of a file source."""
    return records.withColumns(
        {"INPUT_FILE_NAME": F.input_file_name(), "PROCESSED_TIME": F.current_timestamp()}
    )


def write_apart(records: DataFrame, good: str, bad: str) -> None:
    """Append the readable records of a batch to one Parquet folder and the others to another."""
    records.persist()
    is_bad = F.col(CORRUPT).isNotNull()
    records.where(~is_bad).drop(CORRUPT).write.mode("append").parquet(good)
    records.where(is_bad).select(CORRUPT, "INPUT_FILE_NAME").write.mode("append").parquet(bad)
    records.unpersist()


def run(lab: Lab) -> Iterator[str]:
    """Run the ETL over two files and show what it wrote."""
    good, bad = lab.path("parquet"), lab.path("bad")
    records = lab.stream(f"{SCHEMA}, {CORRUPT} string", "1.json", "2.json")
    writer = enriched(records).writeStream.foreachBatch(lambda rows, _number: write_apart(rows, good, bad))
    with started(writer.trigger(processingTime="5 seconds")) as query:
        query.processAllAvailable()
    file_name = F.substring_index("INPUT_FILE_NAME", "/", -1).alias("file")
    written = lab.spark.read.parquet(good)
    columns: list[Column | str] = [
        "deviceId",
        "deviceType",
        "signalStrength",
        F.date_format("timestamp", "HH:mm:ss").alias("timestamp"),
    ]
    yield f"columns: {', '.join(written.columns)}"
    yield table(written.select(*columns, file_name))
    moments = written.groupBy(file_name).agg(F.count_distinct("PROCESSED_TIME").alias("times of processing"))
    yield table(moments)
    yield "bad records"
    yield table(lab.spark.read.parquet(bad).select(CORRUPT, file_name))
