"""A second stream over the output of the first: records per device in windows of five seconds.

The Parquet folder of the ETL (lesson sensor_etl) is the source. The query counts records by
processing time, with one minute of lateness and one shuffle partition, into the memory table
`devices`, which SQL then queries.

Notice: A processing time is never late, and says when a record passed through, not when it was
measured: if the first query was stopped, hours of measurements fall into one window. One partition
is enough for a few devices, and avoids 200 state files, the default number of partitions.
In production: Windows use event time, and `--state-partitions` is 4.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, await_end, format_table

SCHEMA = (
    "deviceId long, deviceType string, signalStrength double, INPUT_FILE_NAME string,"
    " PROCESSED_TIME timestamp"
)


def processed(context: LessonContext) -> DataFrame:
    """Return a stream of the ETL's Parquet files, one per batch (here made from JSON)."""
    rows = context.spark.read.schema(SCHEMA).json(str(context.data / "processed.json"))
    for name in sorted(
        row.INPUT_FILE_NAME for row in rows.select("INPUT_FILE_NAME").distinct().collect()
    ):
        rows.where(F.col("INPUT_FILE_NAME") == name).coalesce(1).write.parquet(
            context.path(f"written/{name}")
        )
        (part,) = (context.folder / f"written/{name}").glob("part-*.parquet")
        context.add_file(part.read_bytes(), f"parquet/{name}.parquet")
    return (
        context.spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(context.path("parquet"))
    )


def counts_per_device(records: DataFrame) -> DataFrame:
    """Return `window`, `deviceId`, `count` and minimum `signalStrength` per five seconds."""
    grouped = records.withWatermark("PROCESSED_TIME", "1 minute").groupBy(
        F.window("PROCESSED_TIME", "5 seconds"), "deviceId"
    )
    return grouped.agg(F.count("*").alias("count"), F.min("signalStrength").alias("signalStrength"))


def run(context: LessonContext) -> Iterator[str]:
    """Fill the memory table and query it, then query the Parquet folder."""
    context.spark.conf.set("spark.sql.shuffle.partitions", 1)
    counts = counts_per_device(processed(context))
    memory = counts.writeStream.outputMode("complete").format("memory").queryName("devices")
    await_end(memory.trigger(availableNow=True).start())
    context.spark.read.parquet(context.path("parquet")).createOrReplaceTempView("input")
    for query in (
        "SELECT window.start, deviceId, count FROM devices ORDER BY start DESC, deviceId",
        "SELECT window.start, deviceId, count FROM devices WHERE count < 5"
        " ORDER BY start DESC, deviceId",
        "SELECT sum(count) AS total FROM devices",
        "SELECT deviceId, deviceType, signalStrength FROM input"
        " WHERE deviceType IN ('SensorTypeA', 'SensorTypeD')"
        " ORDER BY PROCESSED_TIME DESC, signalStrength LIMIT 4",
        "SELECT INPUT_FILE_NAME, PROCESSED_TIME, count(*) AS rows FROM input"
        " GROUP BY 1, 2 ORDER BY 2 DESC",
        "SELECT deviceType, count(*) AS count, min(signalStrength) AS min,"
        " max(signalStrength) AS max,"
        " round(avg(signalStrength), 4) AS avg FROM input GROUP BY 1 ORDER BY 1",
    ):
        yield f"{query}\n{format_table(context.spark.sql(query), ordered=True)}"
