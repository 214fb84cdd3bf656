"""Folders such as `day=2017-06-02` become partition columns of the stream.

Spark decides which partition columns exist when the stream is defined, from the folders that exist
at that time. It then reads later folders of the same kind.

Notice: Where the folder was empty when the stream was defined, the first day ends the query,
because its rows have a column that the stream does not have. Create one folder of each kind first,
or name the column in the schema.
In production: `archive` partitions its output by day. Start a stream over it only once the first
day exists.
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
