"""A running query: its name and two ids, what it does now, what it did, and its plan.

`id` belongs to the checkpoint and stays over restarts, `runId` is new with each start, `name` is yours. `status` says
what it does now, `lastProgress` and `recentProgress` what the last batches did, `explain` how. In Python these are
properties, without brackets, except `explain`.

Notice: The same id, another runId. Idle, it waits for data and no trigger is active. The plan has the two operators
of state, one that reads and one that writes.
In production: `--progress` of `python -m spark_jobs run` writes each batch's progress to a file.
"""

from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO

from spark_jobs.lessons.frame.lab import Lab, started, wait_until

IDLE = {"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}


def run(lab: Lab) -> Iterator[str]:
    """Look at a query from all sides, and again after a restart."""
    counts = lab.stream("user string", "events.json").groupBy("user").count()
    writer = counts.writeStream.outputMode("update").format("noop").queryName("users")
    ids = []
    for start in ("first start", "restart"):
        with started(writer) as query:
            query.processAllAvailable()
            wait_until(lambda q: q.status == IDLE, query)
            ids.append((query.id, query.runId))
            yield f"{start}: name {query.name}, active {query.isActive}, status {IDLE}"
            found = lab.spark.streams.get(query.id)
            yield f"  found again by id: {found is not None and found.runId == query.runId}"
            yield f"  active in the session: {[active.name for active in lab.spark.streams.active]}"
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
                named = [name for name in ("StateStoreRestore", "StateStoreSave") if name in plan.getvalue()]
                yield f"  in the plan: {', '.join(named)}"
        yield f"  after stop: active {query.isActive}, in the session {lab.spark.streams.active}"
    (first_id, first_run), (second_id, second_run) = ids
    yield f"the same id: {first_id == second_id}; the same runId: {first_run == second_run}"
