"""The file source reads CSV, JSON, text, ORC and Parquet.

Only the reader's options differ by format. CSV takes the separator as an option. Text has one
column, `value`. ORC and Parquet store types in the file, but a stream still needs a schema.

Notice: All five formats give the same three people. Text gives lines, and the query has to parse
them.
In production: `archive` writes Parquet, partitioned by kind, date and hour.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from lessons.harness.context import LessonContext

PEOPLE = "name string, age int"


def run(context: LessonContext) -> Iterator[str]:
    """Read the same people as a stream from each format."""
    csv = context.add_files("people.csv", into="csv")
    people = context.spark.read.schema(PEOPLE).options(sep=";", header=True).csv(csv)
    for kind in ("json", "orc", "parquet"):
        people.write.format(kind).save(context.path(kind))
    people.select(F.concat_ws(" is ", "name", "age")).write.text(context.path("text"))
    for kind in ("csv", "json", "text", "orc", "parquet"):
        reader = context.spark.readStream.format(kind)
        if kind != "text":
            reader = reader.schema(PEOPLE)
        if kind == "csv":
            reader = reader.option("sep", ";").option("header", True)
        yield f"{kind}: " + "\n".join(
            context.run_batches(reader.load(context.path(kind)), checkpoint=f"checkpoint-{kind}")
        )
