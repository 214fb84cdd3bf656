"""Several queries in one session: which of them failed, and why.

The queries of a session are threads of one driver. They share its memory, its catalog, and the
executors with their cores. Each has its own checkpoint, state and copy of the settings. When one
fails with an exception, the others continue. If the driver itself fails, for example for lack of
memory, all end.

A failure does not interrupt your program. Spark logs it and tells listeners (lesson listener). To
learn of it in the program, wait: `awaitAnyTermination` returns when the first query ends, and
raises its exception. After `resetTerminated` it waits for the next.

Notice: The query with `cast` fails on `twelve`; the one with `try_cast` continues with a null.
`exception()` of the failed query gives the reason.
In production: `archive`, `user_totals` and the other jobs that `python -m spark_jobs run` names run
in one session. A query that fails is started again from its checkpoint while the others go on. When
one has failed too often (`--restarts`), the program ends with status 1.
"""

from collections.abc import Iterator

from pyspark.errors import StreamingQueryException

from lessons.harness.context import LessonContext, error_summary, format_table


def run(context: LessonContext) -> Iterator[str]:
    """Run two queries, one of which fails."""
    streams = context.spark.streams
    amounts = context.stream("user string, amount string", "good.json")
    queries = {
        name: amounts.selectExpr("user", f"{cast}(amount AS int) AS amount")
        .writeStream.format("memory")
        .queryName(name)
        .start()
        for name, cast in (("strict", "cast"), ("lenient", "try_cast"))
    }
    for query in queries.values():
        query.processAllAvailable()
    yield f"active: {sorted(query.name for query in streams.active)}"
    yield f"a query ended within a second: {streams.awaitAnyTermination(1)}"
    context.add_files("bad.json")
    try:
        streams.awaitAnyTermination(60)
    except StreamingQueryException as error:
        yield f"raised: {error_summary(error)}"
    failure = queries["strict"].exception()
    yield f"exception of strict: {error_summary(failure) if failure else None}"
    yield f"exception of lenient: {queries['lenient'].exception()}"
    queries["lenient"].processAllAvailable()
    yield f"active: {[query.name for query in streams.active]}"
    streams.resetTerminated()
    yield f"after resetTerminated, a query ended within a second: {streams.awaitAnyTermination(1)}"
    for name in queries:
        yield f"{name}\n{format_table(context.spark.table(name))}"
