"""The memory sink: averages of rack temperatures in tables, asked with SQL.

The memory sink keeps the result in a table of the driver, named like the query. In complete mode the table holds the
whole result; in append and update every batch adds rows. It grows without bound and is lost with the process, so it
is for tests and for looking.

Notice: The first window begins at 07:55, since windows slide by five minutes and each reading lies in two.
In production: `rack_temperature` is this very function; it writes to a topic.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab, finish, table
from spark_jobs.rack_temperature import FLEET, rack_temperatures


def run(lab: Lab) -> Iterator[str]:
    """Fill the tables `iot` (all racks together) and `iot_rack`, and ask them."""
    readings = lab.stream("rack_id string, temperature_c double, event_time timestamp", "readings.json")
    windows = rack_temperatures(readings, "10 minutes", "5 minutes", "10 minutes").select(
        F.struct(F.col("window_start").alias("start"), F.col("window_end").alias("end")).alias("window"),
        F.col("scope").alias("rack"),
        F.col("temperature_c_avg").alias("avg_temp"),
    )
    tables = {
        "iot": windows.where(F.col("rack") == FLEET).drop("rack"),
        "iot_rack": windows.where(F.col("rack") != FLEET),
    }
    for name, rows in tables.items():
        memory = rows.writeStream.outputMode("complete").format("memory").queryName(name)
        finish(memory.trigger(availableNow=True).start())
    for question in (
        "SELECT window, avg_temp FROM iot ORDER BY window.start",
        "SELECT window, rack, avg_temp FROM iot_rack ORDER BY window.start, rack",
    ):
        yield f"{question}\n{table(lab.spark.sql(question), ordered=True)}"
