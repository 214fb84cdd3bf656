"""Folders such as `day=2017-06-02` become columns of the stream, if one was there when it was defined.

Which columns come from folder names is settled when the stream is defined, from the folders that exist then. Later
folders of the same kind are found and read.

Notice: Over a folder that was empty when the stream was defined, the first day ends the query: its rows bring a
column that the stream does not have. Create one folder of each kind first, or name the column in the schema.
In production: `archive` partitions what it writes by day; a reader of it as a stream starts when a first day is
there.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Batches, Lab, outcome

SCHEMA = "rack string, temperature double"


def run(lab: Lab) -> Iterator[str]:
    """Define a stream over a folder that has a day, and over empty ones; then a day arrives."""
    lab.arrive("1.json", into="with_a_day/day=2017-06-01")
    for folder, schema in (
        ("with_a_day", SCHEMA),
        ("empty", SCHEMA),
        ("empty_but_said", SCHEMA + ", day date"),
    ):
        lab.arrive(into=folder)
        readings = lab.spark.readStream.schema(schema).json(lab.path(folder))
        lab.arrive("2.json", into=f"{folder}/day=2017-06-02")
        shown = Batches()
        said = outcome(readings.writeStream.foreachBatch(shown).start)
        yield f"{folder}, schema {schema}: {said}\n{shown.new()}"
