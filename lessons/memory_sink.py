"""The memory sink keeps results in driver tables: rack temperatures, queried with SQL.

The sink keeps the result in a table of the driver that is named like the query. In complete mode
the table holds the whole result; in append and update mode every batch adds rows. The table grows
without bound and disappears with the process, so it is suitable for tests only.

Notice: The first window begins at 07:55, because windows slide by five minutes and each reading
lies in two.
In production: `rack_temperature` is this function. It writes to a topic.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from events.constants import FLEET_SCOPE
from lessons.harness.context import LessonContext, await_end, format_table
from spark_jobs.telemetry.rack_temperature import rack_temperatures


def run(context: LessonContext) -> Iterator[str]:
    """Fill the tables `iot` (all racks together) and `iot_rack`, and query them."""
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
