"""The memory sink keeps results in driver tables: rack temperatures, queried with SQL.

The sink keeps the result in a table of the driver that is named like the query. In complete mode
the table holds the whole result; in append and update mode every batch adds rows. The table grows
without bound and disappears with the process, so it is suitable for tests only. The checkpoint does
not hold the table, so only complete mode can restart from it.

Notice: The first window begins at 07:55, because windows slide by five minutes and each reading
lies in two. After the restart in complete mode, the first batch writes the whole table again, from
the state. In update mode the rows of earlier batches would be missing, so Spark refuses.
In production: `rack_temperature` is this function. It writes to a topic.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from events.constants import FLEET_SCOPE
from lessons.harness.context import LessonContext, await_end, format_table, outcome
from spark_jobs.telemetry.rack_temperature import rack_temperatures


def run(context: LessonContext) -> Iterator[str]:
    """Fill the tables `iot` (all racks together) and `iot_rack`, query them, and restart `iot`."""
    readings = context.stream(
        "rack_id string, temperature_c double, event_time timestamp", "readings.json"
    )
    windows = rack_temperatures(readings, "10 minutes", "5 minutes", "10 minutes").select(
        F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end")).alias(
            "window"
        ),
        F.col("scope").alias("rack"),
        F.col("temperature_c_avg").alias("avg_temp"),
    )
    tables = {
        "iot": windows.where(F.col("rack") == FLEET_SCOPE).drop("rack"),
        "iot_rack": windows.where(F.col("rack") != FLEET_SCOPE),
    }
    for name, rows in tables.items():
        memory = rows.writeStream.outputMode("complete").format("memory").queryName(name)
        await_end(memory.trigger(availableNow=True).start())
    for query in (
        "SELECT window, avg_temp FROM iot ORDER BY window.start",
        "SELECT window, rack, avg_temp FROM iot_rack ORDER BY window.start, rack",
    ):
        yield f"{query}\n{format_table(context.spark.sql(query), ordered=True)}"
    for mode in ("complete", "update"):
        again = tables["iot"].writeStream.outputMode(mode).format("memory").queryName(f"iot_{mode}")
        await_end(again.trigger(availableNow=True).start())
        context.spark.catalog.dropTempView(f"iot_{mode}")
    context.add_files("later.json")
    for mode in ("complete", "update"):
        again = tables["iot"].writeStream.outputMode(mode).format("memory").queryName(f"iot_{mode}")
        yield f"restart in {mode} mode: {outcome(again.start)}"
        if mode == "complete":
            restarted = context.spark.table("iot_complete").orderBy("window.start")
            yield format_table(restarted, ordered=True)
