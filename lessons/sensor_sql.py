"""Live SQL over the ETL's folder: a streaming view, and queries that sort in complete mode.

The second part of the chain (lesson sensor_etl). The ETL runs with its trigger of five seconds,
and a second stream reads the Parquet folder that it writes. That stream is registered as a view.
SQL over a streaming view is again a stream, so each query here runs for as long as the ETL does.

A stream has no end, so Spark refuses to sort it. In complete mode every batch writes the whole
result, which can be sorted: `ORDER BY` is allowed after an aggregation. The filter has none, so it
runs in append mode and cannot sort. The memory sink shows each result as a table.

A static view of the same folder, from `spark.read`, is computed when somebody asks for it; these
queries follow the folder by themselves.

Data: The files of lesson sensor_etl.
Notice: The second round counts the rows of both files, not only those of the new one. The total is
one row of state, the statistics one per type. Rows per file and processing time is the trace of the
ETL: one file per batch, the latest first; the times differ in each run, so they are printed after
the output. `count < 5` also selects windows that are still filling: device 1 had 3 records in its
first window, and 5 in the end (lesson sensor_alerts).
In production: `signal_statistics` computes such statistics per device type and window.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext, format_table, outcome, started, wait_until
from lessons.sensor_etl import DATA, etl, rows_read, sensors

QUERIES = {
    "total": "SELECT count(*) AS total FROM sensors",
    "per_type": (
        "SELECT deviceType, count(*) AS count, min(signalStrength) AS min,"
        " max(signalStrength) AS max, round(avg(signalStrength), 4) AS avg"
        " FROM sensors GROUP BY deviceType ORDER BY deviceType"
    ),
    "per_file": (
        "SELECT INPUT_FILE_NAME, PROCESSED_TIME, count(*) AS rows"
        " FROM sensors GROUP BY 1, 2 ORDER BY 2 DESC"
    ),
    "few": (
        "SELECT window(timestamp, '5 seconds').start AS start, deviceId, count(*) AS count"
        " FROM sensors GROUP BY 1, 2 HAVING count(*) < 5 ORDER BY 1 DESC, 2"
    ),
    "two_types": (
        "SELECT deviceId, deviceType, signalStrength FROM sensors"
        " WHERE deviceType IN ('SensorTypeA', 'SensorTypeD') AND signalStrength < 0.51"
    ),
}


def run(context: LessonContext) -> Iterator[str]:
    """Run the ETL and five live queries, and show their results after each of two files."""
    sensors(context).createOrReplaceTempView("sensors")
    spark = context.spark
    yield f"the view is a stream: {spark.table('sensors').isStreaming}"
    unsorted = spark.sql(QUERIES["two_types"]).orderBy("deviceId").writeStream.format("noop")
    yield f"ORDER BY without an aggregation: {outcome(unsorted.start, start_only=True)}"
    with started(etl(context, "1.json").trigger(processingTime="5 seconds")) as first:
        queries = []
        for name, sql in QUERIES.items():
            mode = "append" if name == "two_types" else "complete"
            memory = spark.sql(sql).writeStream.outputMode(mode).format("memory")
            memory = memory.queryName(name).trigger(processingTime="1 second")
            queries.append(memory.start())
            yield f"{name}, {mode}: {sql}"
        for written, files in ((1, ()), (2, ("2.json",))):
            context.add_files(*(str(DATA / file) for file in files))
            wait_until(lambda written=written: len(rows_read(first)) == written)
            for query in queries:
                query.processAllAvailable()
            yield f"after {written} file(s)"
            for query in queries:
                yield f"{query.name}\n{_table(context, query.name)}"


def _table(context: LessonContext, name: str) -> str:
    rows = context.spark.table(name)
    if name == "per_file":
        file = F.substring_index("INPUT_FILE_NAME", "/", -1).alias("file")
        rows = rows.select(file, "PROCESSED_TIME", "rows")
        context.measurements.append(f"per_file\n{format_table(rows, ordered=True)}")
        rows = rows.drop("PROCESSED_TIME")  # another in each run
    return format_table(rows, ordered=name != "two_types")
