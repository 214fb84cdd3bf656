"""Bad records: what each way of reading makes of them.

PERMISSIVE, the default, makes nulls of what it cannot read; with a column `_corrupt_record` it keeps the record's own
words beside them. DROPMALFORMED drops them without a word. FAILFAST ends the query with the first. `badRecordsPath`,
of which many texts speak, is not a part of open-source Spark: the option is ignored.

Notice: Without `_corrupt_record` a bad record cannot be told from one with nulls. `three` for a number spoils that
field alone, so the record's good fields are there as well. No folder was made by `badRecordsPath`.
In production: A dead letter carries the record's bytes, so that nothing is lost, not even what is not UTF-8.
"""

from collections.abc import Iterator
from typing import Any

from spark_jobs.lessons.frame.lab import Lab, outcome, table
from spark_jobs.lessons.sensor_etl import CORRUPT, SCHEMA


def run(lab: Lab) -> Iterator[str]:
    """Read the same file in each way."""
    folder = lab.arrive("records.json")
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "PERMISSIVE": (SCHEMA, {}),
        "PERMISSIVE with _corrupt_record": (f"{SCHEMA}, {CORRUPT} string", {}),
        "DROPMALFORMED": (SCHEMA, {"mode": "DROPMALFORMED"}),
        "FAILFAST": (SCHEMA, {"mode": "FAILFAST"}),
        "badRecordsPath": (SCHEMA, {"badRecordsPath": lab.path("bad")}),
    }
    for number, (name, (schema, options)) in enumerate(ways.items()):
        records = (
            lab.spark.readStream.schema(schema)
            .options(**options)
            .json(folder)
            .drop("timestamp", "deviceType")
        )
        memory = records.writeStream.format("memory").queryName(f"way{number}")
        yield f"{name}: {outcome(memory.start)}\n{table(lab.spark.table(f'way{number}'))}"
    yield f"a folder for bad records was made: {(lab.folder / 'bad').exists()}"
