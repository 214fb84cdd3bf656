"""Folders such as `day=2017-06-02` become partition columns of the stream.

Spark decides which partition columns exist when the stream is defined, from the folders that exist
at that time. It then reads later folders of the same kind. A common text says that the folders have
to exist when the query starts. They do not, if the schema names the partition columns.

Notice: Where the folder was empty when the stream was defined, the first day ends the query,
because its rows have a column that the stream does not have. With the column in the schema, the
same empty folder is no problem. So create one folder of each kind first, or name the column.
In production: `archive` partitions its files by kind, date and hour. A stream over them has to name
these columns or start after the first hour. Programs other than Spark read the compacted files.
"""

from collections.abc import Iterator

from lessons.harness.context import BatchCollector, LessonContext, outcome

SCHEMA = "rack string, temperature double"


def run(context: LessonContext) -> Iterator[str]:
    """Define a stream over a folder with a day, and over empty ones; then a day arrives."""
    context.add_files("1.json", into="with_a_day/day=2017-06-01")
    for folder, schema in (
        ("with_a_day", SCHEMA),
        ("empty", SCHEMA),
        ("empty_day_in_schema", SCHEMA + ", day date"),
    ):
        context.add_files(into=folder)
        readings = context.spark.readStream.schema(schema).json(context.path(folder))
        context.add_files("2.json", into=f"{folder}/day=2017-06-02")
        collector = BatchCollector()
        result = outcome(readings.writeStream.foreachBatch(collector).start)
        yield f"{folder}, schema {schema}: {result}\n{collector.take()}"
