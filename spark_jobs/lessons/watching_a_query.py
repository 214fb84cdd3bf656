"""A running query: its name and two ids, what it does now, what it did, and its plan.

`id` belongs to the checkpoint and stays over restarts, `runId` is new with each start, `name` is yours. `status` says
what it does now, `lastProgress` and `recentProgress` what the last batches did, `explain` how. In Python these are
properties, without brackets, except `explain`.

Notice: The same id, another runId. Idle, it waits for data and no trigger is active. The plan has the two operators of
state, one that reads and one that writes.
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
            wait_until(lambda query=query: query.status == IDLE)
            ids.append((query.id, query.runId))
            yield f"{start}: name {query.name}, active {query.isActive}, status {IDLE}"
            yield f"  found again by id: {lab.spark.streams.get(query.id).runId == query.runId}"
            yield f"  active in the session: {[active.name for active in lab.spark.streams.active]}"
            if start == "first start":
                progress = query.lastProgress
                yield f"  last progress: batch {progress.batchId}, {progress.numInputRows} rows, the newest of {len(query.recentProgress)}"
                yield f"  state: {progress.stateOperators[0].operatorName}, {progress.stateOperators[0].numRowsTotal} rows"
                yield f"  durations of: {', '.join(sorted(progress.durationMs))}"
                with redirect_stdout(StringIO()) as plan:
                    query.explain()
                found = [name for name in ("StateStoreRestore", "StateStoreSave") if name in plan.getvalue()]
                yield f"  in the plan: {', '.join(found)}"
        yield f"  after stop: active {query.isActive}, in the session {lab.spark.streams.active}"
    (first_id, first_run), (second_id, second_run) = ids
    yield f"the same id: {first_id == second_id}; the same runId: {first_run == second_run}"
