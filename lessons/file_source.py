"""The file source makes a folder a stream: each file is read once, when it first appears.

The query needs a schema, because it cannot look at files that do not exist yet. Files that exist
when the query starts belong to the stream, and so do those that arrive later. Some texts say that
only new files are read, or that a changed file is read again; both are wrong. Spark remembers a
file by its path and never sees later changes to it. A file therefore has to arrive complete, by a
rename. Spark ignores names that begin with a dot or an underscore, so a file can be written under
such a name first.

Notice: `1.json` existed before the start and is batch 0. Then the lesson writes a record for Texas
to `1.json`. It is never read. A record with other fields is not an error: its columns become null.
To detect such records, check for them (lesson bad_records).
In production: Every job reads Kafka, where a record is always complete. Only `archive` writes files
(lesson parquet_sink).
"""

from collections.abc import Iterator

from lessons.harness.context import BatchCollector, LessonContext, started


def run(context: LessonContext) -> Iterator[str]:
    """Show which files a running query reads, and which it does not."""
    people = context.spark.readStream.schema("name string, age int").json(
        context.add_files("1.json")
    )
    collector = BatchCollector()
    with started(people.writeStream.foreachBatch(collector)) as query:

        def after(event: str) -> str:
            query.processAllAvailable()
            return f"{event}\n{collector.take()}"

        yield after("1.json existed at the start")
        context.add_files("2.json")
        yield after("2.json arrived")
        context.add_file('{"name": "Texas", "age": 1}', "input/1.json")
        yield after("1.json was changed")
        context.add_file('{"name": "half', "input/.3.json.part")
        yield after("half of 3.json was written under a hidden name")
        context.add_files("other.json")
        yield after("other.json arrived with another schema")
