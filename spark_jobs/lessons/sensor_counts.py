"""A second stream over what the first has written: records per device in windows of five seconds.

The Parquet folder of the lesson sensor_etl is itself a stream. Records are counted by the time of their processing,
with a minute of lateness, in one shuffle partition, into the memory table `devices`, which is then asked in SQL.

Notice: A time of processing is never late, and says when a record passed through here, not when it was measured:
after a pause of the first query, hours of measurements lie in one window. One partition is enough for a few devices,
and saves a file of state for each of the usual 200.
In production: Windows are by event time; `--state-partitions` is 4.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish, table

SCHEMA = "deviceId long, deviceType string, signalStrength double, INPUT_FILE_NAME string, PROCESSED_TIME timestamp"


def processed(lab: Lab) -> DataFrame:
    """Return what the ETL has written, as a stream: a Parquet file a batch, here from a file of JSON."""
    rows = lab.spark.read.schema(SCHEMA).json(str(lab.data / "processed.json"))
    for name in sorted(row.INPUT_FILE_NAME for row in rows.select("INPUT_FILE_NAME").distinct().collect()):
        rows.where(F.col("INPUT_FILE_NAME") == name).coalesce(1).write.parquet(lab.path(f"written/{name}"))
        (part,) = (lab.folder / f"written/{name}").glob("part-*.parquet")
        lab.write(part.read_bytes(), f"parquet/{name}.parquet")
    return lab.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(lab.path("parquet"))


def counts_per_device(records: DataFrame) -> DataFrame:
    """Return `window`, `deviceId`, `count` and the lowest `signalStrength` per five seconds."""
    grouped = records.withWatermark("PROCESSED_TIME", "1 minute").groupBy(
        F.window("PROCESSED_TIME", "5 seconds"), "deviceId"
    )
    return grouped.agg(F.count("*").alias("count"), F.min("signalStrength").alias("signalStrength"))


def run(lab: Lab) -> Iterator[str]:
    """Fill the table and ask; then the same questions of the Parquet folder."""
    lab.spark.conf.set("spark.sql.shuffle.partitions", 1)
    counts = counts_per_device(processed(lab))
    memory = counts.writeStream.outputMode("complete").format("memory").queryName("devices")
    finish(memory.trigger(availableNow=True).start())
    lab.spark.read.parquet(lab.path("parquet")).createOrReplaceTempView("input")
    for question in (
        "SELECT window.start, deviceId, count FROM devices ORDER BY start DESC, deviceId",
        "SELECT window.start, deviceId, count FROM devices WHERE count < 5 ORDER BY start DESC, deviceId",
        "SELECT sum(count) AS total FROM devices",
        "SELECT deviceId, deviceType, signalStrength FROM input WHERE deviceType IN ('SensorTypeA', 'SensorTypeD')"
        " ORDER BY PROCESSED_TIME DESC, signalStrength LIMIT 4",
        "SELECT INPUT_FILE_NAME, PROCESSED_TIME, count(*) AS rows FROM input GROUP BY 1, 2 ORDER BY 2 DESC",
        "SELECT deviceType, count(*) AS count, min(signalStrength) AS min, max(signalStrength) AS max,"
        " round(avg(signalStrength), 4) AS avg FROM input GROUP BY 1 ORDER BY 1",
    ):
        yield f"{question}\n{table(lab.spark.sql(question), ordered=True)}"
