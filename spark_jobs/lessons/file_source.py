"""Files as a stream: each is read once, when it is first seen.

A folder is a stream of files. The schema is given, since a stream cannot look at all its data first. Files that are
there when the query starts belong to the stream like those that come later. A file counts as read by its path: what
is changed in it afterwards is never seen, so a file has to arrive whole, by a rename. Spark does not read names that
begin with a dot or an underscore, which is where the half-written file hides.

Notice: The person Texas, who was added to a file already read, is missing for ever. A row of another schema is no
error: it becomes nulls. Whoever needs to know of such rows has to look for them (lesson bad_records).
In production: `archive` writes such files; the jobs read Kafka, where a record cannot be half there.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Batches, Lab, started


def run(lab: Lab) -> Iterator[str]:
    """Show which files a running query takes, and which it does not."""
    people = lab.spark.readStream.schema("name string, age int").json(lab.arrive("1.json"))
    shown = Batches()
    with started(people.writeStream.foreachBatch(shown)) as query:

        def after(event: str) -> str:
            query.processAllAvailable()
            return f"{event}\n{shown.new()}"

        yield after("1.json was there at the start")
        lab.arrive("2.json")
        yield after("2.json arrived")
        lab.write('{"name": "Texas", "age": 1}', "input/1.json")
        yield after("1.json was changed")
        lab.write('{"name": "half', "input/.3.json.part")
        yield after("half of 3.json is there, under another name")
        lab.arrive("other.json")
        yield after("other.json arrived, of another schema")
