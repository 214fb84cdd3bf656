"""A stream of files wants a schema, or leave to guess one.

Without a schema the reader refuses, since the files of tomorrow cannot be looked at today. With
`spark.sql.streaming.schemaInference` it looks at those of now, which costs a job that reads them, and takes what it
finds for all times.

Notice: One row with 45.5 made `age` a double. Had that file come a day later, `age` would be a long, and 45.5 a null.
In production: Every job's schema is derived from the record in `events/`; nothing is guessed.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from spark_jobs.lessons.frame.lab import Lab, outcome


def run(lab: Lab) -> Iterator[str]:
    """Open the same folder with a schema, without, and with inference, and count the jobs that each starts."""
    folder = lab.arrive("people.json")

    def opened(name: str, schema: str | None) -> str:
        context = lab.spark.sparkContext
        context.setJobGroup(name, name)
        found: list[DataFrame] = []

        def read() -> None:
            reader = lab.spark.readStream.schema(schema) if schema else lab.spark.readStream
            found.append(reader.json(folder))

        said = outcome(read)
        jobs = len(context.statusTracker().getJobIdsForGroup(name))
        types = ", ".join(" ".join(pair) for pair in found[0].dtypes) if found else "no stream"
        return f"{name}: {said}; {jobs} jobs; {types}"

    yield opened("a schema is given", "name string, age int")
    yield opened("none is given", None)
    lab.spark.conf.set("spark.sql.streaming.schemaInference", True)
    yield opened("none is given, inference is on", None)
