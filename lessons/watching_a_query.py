"""Inspect a running query: name, ids, status, progress and plan.

`id` belongs to the checkpoint and survives restarts. `runId` is new with each start. You choose the
`name`. `status` says what the query does now, `lastProgress` and `recentProgress` describe recent
batches, and `explain` prints the plan. In Python all but `explain` are properties, without
parentheses. A progress names each source with the offsets that the batch started and ended at, the
sink with the rows written, and the rates: rows that arrived, and rows processed, per second.

Notice: The restart has the same id and another runId, and its source goes on at offset 3. The idle
query waits for data and no trigger is active. The plan has two state operators, one that reads and
one that writes. The first batch after a start has an input rate of 0, because there is no earlier
batch to measure from. A run prints the rates below the output, as `measured`.
In production: `--progress` of `python -m spark_jobs run` writes the progress of each batch to a
file, for `user_totals` as for every job.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lessons.harness.context import LessonContext, started, wait_until

IDLE = {"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}


def run(context: LessonContext) -> Iterator[str]:
    """Inspect a query while it runs, after a stop, and after a restart."""
    source = context.broker.create_topic("watching-in")
    writer = _counts_writer(context, source, context.broker.create_topic("watching-out"))
    ids = []
    events, more = (
        (context.data / name).read_text(encoding="utf-8").splitlines()
        for name in ("events.json", "more.json")
    )
    for start in ("first start", "restart"):
        context.broker.send(source, events if start == "first start" else more)
        with started(writer) as query:
            query.processAllAvailable()
            if start == "first start":
                context.broker.send(source, more)
                query.processAllAvailable()
            wait_until(lambda q: q.status == IDLE, query)
            ids.append((query.id, query.runId))
            yield f"{start}: name {query.name}, active {query.isActive}, status {IDLE}"
            found = context.spark.streams.get(query.id)
            yield f"  found again by id: {found is not None and found.runId == query.runId}"
            active = [query.name for query in context.spark.streams.active]
            yield f"  active in the session: {active}"
            yield from _last_progress(context, query)
            if start == "first start":
                yield from _details(query)
        remaining = context.spark.streams.active
        yield f"  after stop: active {query.isActive}, in the session {remaining}"
    (first_id, first_run), (second_id, second_run) = ids
    yield f"the same id: {first_id == second_id}; the same runId: {first_run == second_run}"


def _counts_writer(context: LessonContext, source: str, sink: str) -> DataStreamWriter:
    options = {"kafka.bootstrap.servers": context.broker.bootstrap}
    kafka = context.spark.readStream.format("kafka").options(**options, subscribe=source)
    events = kafka.option("startingOffsets", "earliest").load()
    user = F.get_json_object(F.col("value").cast("string"), "$.user").alias("user")
    counts = events.groupBy(user).count().select(F.to_json(F.struct("*")).alias("value"))
    writer = counts.writeStream.outputMode("update").format("kafka").queryName("users")
    return writer.options(**options, topic=sink)


def _last_progress(context: LessonContext, query: StreamingQuery) -> Iterator[str]:
    progress = query.lastProgress
    assert progress is not None  # noqa: S101 - a batch has run
    source, sink = progress.sources[0], progress.sink
    yield f"  last progress: batch {progress.batchId}, {progress.numInputRows} rows"
    yield f"    source {source.description}: offsets {source.startOffset} to {source.endOffset}"
    yield f"    behind the latest offset: {source.metrics['maxOffsetsBehindLatest']}"
    name = re.split(r"[.$@]", sink.description)[-2]
    yield f"    sink {name}: {sink.numOutputRows} rows"
    rates = progress.inputRowsPerSecond, progress.processedRowsPerSecond
    yield f"    rows arrived per second above 0: {rates[0] > 0}; processed: {rates[1] > 0}"
    context.measurements.append(
        f"batch {progress.batchId}: {rates[0]:.1f} rows arrived per second,"
        f" {rates[1]:.1f} were processed"
    )


def _details(query: StreamingQuery) -> Iterator[str]:
    progress = query.lastProgress
    assert progress is not None  # noqa: S101 - a batch has run
    yield f"  recent progress: {len(query.recentProgress)}"
    state = progress.stateOperators[0]
    yield f"  state: {state.operatorName}, {state.numRowsTotal} rows"
    yield f"  durations of: {', '.join(sorted(progress.durationMs))}"
    with redirect_stdout(StringIO()) as plan:
        query.explain()
    operators = ("StateStoreRestore", "StateStoreSave")
    yield f"  in the plan: {', '.join(name for name in operators if name in plan.getvalue())}"
