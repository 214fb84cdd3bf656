"""A stream joined with a table, on `type`: inner, and left outer.

Every batch is joined with the table; nothing is remembered, so every output mode but complete is allowed and no
watermark is needed. The stream has to be the side whose rows are kept: an outer join that keeps the table's rows
would have to know that no row of the stream will ever come.

Notice: Device c has a type that the table does not know: inner leaves it out, left outer gives null.
In production: `overheating` joins readings with the inventory, left, so that unknown racks get 100 °C.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab, outcomes


def run(lab: Lab) -> Iterator[str]:
    """Join devices with their types."""
    devices = lab.stream("device string, type string", "devices.json")
    types = lab.spark.read.option("header", True).csv(str(lab.data / "types.csv"))
    for how in ("inner", "left_outer"):
        yield how
        yield from lab.batches(devices.join(types, on="type", how=how), checkpoint=how)
    joins = {
        "stream right_outer table": devices.join(types, on="type", how="right_outer"),
        "table left_outer stream": types.join(devices, on="type", how="left_outer"),
        "table right_outer stream": types.join(devices, on="type", how="right_outer"),
        "stream full_outer table": devices.join(types, on="type", how="full_outer"),
        "stream left_semi table": devices.join(types, on="type", how="left_semi"),
        "stream left_anti table": devices.join(types, on="type", how="left_anti"),
    }
    starts = [(name, rows.writeStream.format("noop").start) for name, rows in joins.items()]
    yield outcomes(starts, start_only=True)
