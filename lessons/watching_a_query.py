"""Inspect a running query: name, ids, status, progress and plan.

`id` belongs to the checkpoint and survives restarts. `runId` is new with each start. You choose the
`name`. `status` says what the query does now, `lastProgress` and `recentProgress` describe recent
batches, and `explain` prints the plan. In Python all but `explain` are properties, without
parentheses.

Notice: The restart has the same id and another runId. The idle query waits for data and no trigger
is active. The plan has two state operators, one that reads and one that writes.
In production: `--progress` of `python -m spark_jobs run` writes each batch's progress to a file.
"""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from lessons.harness.context import LessonContext, started, wait_until

IDLE = {"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}


def run(context: LessonContext) -> Iterator[str]:
    """Inspect a query while it runs, after a stop, and after a restart."""
    counts = context.stream("user string", "events.json").groupBy("user").count()
    writer = counts.writeStream.outputMode("update").format("noop").queryName("users")
    ids = []
    for start in ("first start", "restart"):
        with started(writer) as query:
            query.processAllAvailable()
            wait_until(lambda q: q.status == IDLE, query)
            ids.append((query.id, query.runId))
            yield f"{start}: name {query.name}, active {query.isActive}, status {IDLE}"
            found = context.spark.streams.get(query.id)
            yield f"  found again by id: {found is not None and found.runId == query.runId}"
            active = [query.name for query in context.spark.streams.active]
            yield f"  active in the session: {active}"
            if start == "first start":
                progress = query.lastProgress
                assert progress is not None  # noqa: S101 - a batch has run
                yield f"  last progress: batch {progress.batchId}, {progress.numInputRows} rows"
                yield f"  recent progress: {len(query.recentProgress)}"
                state = progress.stateOperators[0]
                yield f"  state: {state.operatorName}, {state.numRowsTotal} rows"
                yield f"  durations of: {', '.join(sorted(progress.durationMs))}"
                with redirect_stdout(StringIO()) as plan:
                    query.explain()
                named = [
                    name
                    for name in ("StateStoreRestore", "StateStoreSave")
                    if name in plan.getvalue()
                ]
                yield f"  in the plan: {', '.join(named)}"
        remaining = context.spark.streams.active
        yield f"  after stop: active {query.isActive}, in the session {remaining}"
    (first_id, first_run), (second_id, second_run) = ids
    yield f"the same id: {first_id == second_id}; the same runId: {first_run == second_run}"
