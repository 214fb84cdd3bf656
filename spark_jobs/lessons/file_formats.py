"""One stream per file format: CSV, JSON, text, ORC and Parquet.

The reader differs by format, the stream does not. CSV takes its separator as an option; text has one column `value`;
ORC and Parquet carry types in the file, and still the stream wants the schema from you.

Notice: All five give the same three people. Text gives lines, and what they mean is left to the query.
In production: `archive` writes Parquet, partitioned by day, which is read back as fast as columns can be.
"""

from collections.abc import Iterator

from pyspark.sql import functions as F

from spark_jobs.lessons.frame.lab import Lab

PEOPLE = "name string, age int"


def run(lab: Lab) -> Iterator[str]:
    """Read the same people as a stream from each format."""
    csv = lab.arrive("people.csv", into="csv")
    people = lab.spark.read.schema(PEOPLE).options(sep=";", header=True).csv(csv)
    for kind in ("json", "orc", "parquet"):
        people.write.format(kind).save(lab.path(kind))
    people.select(F.concat_ws(" is ", "name", "age")).write.text(lab.path("text"))
    for kind in ("csv", "json", "text", "orc", "parquet"):
        reader = lab.spark.readStream.format(kind)
        if kind != "text":
            reader = reader.schema(PEOPLE)
        if kind == "csv":
            reader = reader.option("sep", ";").option("header", True)
        yield f"{kind}: " + "\n".join(
            lab.batches(reader.load(lab.path(kind)), checkpoint=f"checkpoint-{kind}")
        )
