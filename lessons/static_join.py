"""A stream joined with a static table: inner and left outer.

Every batch is joined with the table. The join has no state, so append and update mode are allowed
and no watermark is needed. The stream has to be the preserved side: an outer join that preserves
rows of the table would have to know that no matching row of the stream will ever come.

Notice: Device c has a type that is not in the table: inner drops it, left outer gives null.
In production: `overheating` left-joins readings with the inventory, so unknown racks get 100 °C.
"""

from collections.abc import Iterator

from lessons.harness.context import LessonContext, outcomes


def run(context: LessonContext) -> Iterator[str]:
    """Join devices with their types, in every direction."""
    devices = context.stream("device string, type string", "devices.json")
    types = context.spark.read.option("header", True).csv(str(context.data / "types.csv"))
    for how in ("inner", "left_outer"):
        yield how
        yield from context.run_batches(devices.join(types, on="type", how=how), checkpoint=how)
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
