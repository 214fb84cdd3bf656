"""Several queries in one session: each on its own, and how to hear which of them died of what.

Queries share the session's cores and nothing else. When one fails, the others go on, and nobody hears of it who does
not ask. `awaitAnyTermination` returns when the first ends, and raises its exception; after `resetTerminated` it waits
for the next.

Notice: The query that casts dies of `twelve`; the one that try-casts goes on with a null. `exception()` of the dead
query names the reason, as long as somebody holds on to the query.
In production: `python -m spark_jobs run` runs all jobs in one session, and ends with status 1 when a query dies.
"""

from collections.abc import Iterator

from pyspark.errors import StreamingQueryException

from spark_jobs.lessons.frame.lab import Lab, reason, table


def run(lab: Lab) -> Iterator[str]:
    """Run two queries; let one of them die."""
    streams = lab.spark.streams
    amounts = lab.stream("user string, amount string", "good.json")
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
    yield f"one has ended within a second: {streams.awaitAnyTermination(1)}"
    lab.arrive("bad.json")
    try:
        streams.awaitAnyTermination(60)
    except StreamingQueryException as error:
        yield f"raised: {reason(error)}"
    died_of = queries["strict"].exception()
    yield f"exception of strict: {reason(died_of) if died_of else None}"
    yield f"exception of lenient: {queries['lenient'].exception()}"
    queries["lenient"].processAllAvailable()
    yield f"active: {[query.name for query in streams.active]}"
    streams.resetTerminated()
    yield f"after resetTerminated, one has ended within a second: {streams.awaitAnyTermination(1)}"
    for name in queries:
        yield f"{name}\n{table(lab.spark.table(name))}"
