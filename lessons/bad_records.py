"""How each parse mode treats bad records.

PERMISSIVE, the default, gives nulls for what it cannot parse; a column `_corrupt_record` keeps the
raw text. DROPMALFORMED drops bad records silently. FAILFAST fails the query at the first one.
`badRecordsPath`, which many texts mention, is not part of open-source Spark: the option is ignored.

Notice: Without `_corrupt_record`, a bad record looks like one with nulls. `three` instead of a
number makes only that field null; the other fields are parsed. `badRecordsPath` created no folder.
In production: `dead_letters` writes up to 64 KiB of the record's text, and its first 48 KiB as
base64. A value that is not UTF-8 has only the base64.
"""

from collections.abc import Iterator
from typing import Any

from lessons.harness.context import LessonContext, format_table, outcome
from lessons.sensor_etl import CORRUPT, SCHEMA


def run(context: LessonContext) -> Iterator[str]:
    """Read the same file in each mode."""
    folder = context.add_files("records.json")
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "PERMISSIVE": (SCHEMA, {}),
        "PERMISSIVE with _corrupt_record": (f"{SCHEMA}, {CORRUPT} string", {}),
        "DROPMALFORMED": (SCHEMA, {"mode": "DROPMALFORMED"}),
        "FAILFAST": (SCHEMA, {"mode": "FAILFAST"}),
        "badRecordsPath": (SCHEMA, {"badRecordsPath": context.path("bad")}),
    }
    for number, (name, (schema, options)) in enumerate(modes.items()):
        records = (
            context.spark.readStream.schema(schema)
            .options(**options)
            .json(folder)
            .drop("timestamp", "deviceType")
        )
        memory = records.writeStream.format("memory").queryName(f"mode{number}")
        result = outcome(memory.start)
        yield f"{name}: {result}\n{format_table(context.spark.table(f'mode{number}'))}"
    yield f"a folder for bad records was made: {(context.folder / 'bad').exists()}"
