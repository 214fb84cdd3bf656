"""A file stream needs a schema, unless schema inference is on.

Without a schema the reader refuses to start. Some texts say that streams cannot infer a schema at
all. With `spark.sql.streaming.schemaInference` they can: the reader runs a job over the files that
exist now, and keeps the schema it finds for the life of the query.

Notice: One row with 45.5 made `age` a double. Had that file come a day later, `age` would be a
long, and 45.5 would be null.
In production: Every job's schema, such as that of `overheating`, is derived from the record in
`events`; nothing is inferred.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from lessons.harness.context import LessonContext, outcome


def run(context: LessonContext) -> Iterator[str]:
    """Define the stream with a schema, without, and with inference; count the Spark jobs."""
    folder = context.add_files("people.json")

    def define(name: str, schema: str | None) -> str:
        spark_context = context.spark.sparkContext
        spark_context.setJobGroup(name, name)
        streams: list[DataFrame] = []

        def read() -> None:
            reader = context.spark.readStream.schema(schema) if schema else context.spark.readStream
            streams.append(reader.json(folder))

        result = outcome(read)
        jobs = len(spark_context.statusTracker().getJobIdsForGroup(name))
        types = ", ".join(" ".join(pair) for pair in streams[0].dtypes) if streams else "no stream"
        return f"{name}: {result}; {jobs} jobs; {types}"

    yield define("a schema is given", "name string, age int")
    yield define("no schema is given", None)
    context.spark.conf.set("spark.sql.streaming.schemaInference", True)
    yield define("no schema is given, inference is on", None)
