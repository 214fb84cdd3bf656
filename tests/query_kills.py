"""Kill a query inside a running driver, again and again, and measure how long it is away.

`python -m tests.query_kills KILLS CHECKPOINT_ROOT JOB ...` runs jobs until SIGTERM, with the broker
and the prefix of the environment, while something else sends events. It kills the query of each so
many times. It prints one JSON line per kill: the job, when its query was killed and when it was
active again, in epoch milliseconds.
"""

import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession

from events import settings
from events.times import now_ms
from events.triggers import Trigger
from jars.java import QUICK_JAVA
from spark_jobs.registry import JOBS
from spark_jobs.runtime import cds_archive, runner
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.small_data import INTERPRETED
from tests.support import eventually

WORKS_S = 11.0
"""A real-time query that has run for so long counts as working, and is started again at once."""


def kill_queries(name: str, kills: int, *, ends_batches: bool) -> None:
    """Kill a query so many times, each time after it works again; an error ends this process."""
    try:
        eventually(lambda: SparkSession._instantiatedSession, timeout_s=120)
        spark = SparkSession._instantiatedSession
        assert spark is not None
        for _ in range(kills):
            seen_s: dict[str, float] = {}
            look = partial(_working, spark, name, seen_s, ends_batches=ends_batches)
            query = eventually(look, timeout_s=120)
            killed_ms = now_ms()
            eventually(partial(_cancel, spark, query), timeout_s=30, every_s=0.01)
            eventually(partial(_active, spark, name, query), timeout_s=60, every_s=0.01)
            done = {"job": name, "killed_ms": killed_ms, "active_ms": now_ms()}
            print(json.dumps(done) + "\n", end="", flush=True)  # noqa: T201 - a line in one write
    except BaseException:
        os.kill(os.getpid(), signal.SIGTERM)
        raise


def _working(
    spark: SparkSession, name: str, seen_s: dict[str, float], *, ends_batches: bool
) -> Any:
    """Return the query if it has run for long enough, and ended a batch unless they are long.

    So it is killed in the middle of a later batch, and not always in its first. `seen_s` has when
    each run was first seen: on a busy machine a run may fail by itself, and another follows.
    """
    query = _active(spark, name)
    if query is None:
        return None
    runs_s = time.monotonic() - seen_s.setdefault(query.runId, time.monotonic())
    return query if runs_s >= WORKS_S and (query.lastProgress or not ends_batches) else None


def _active(spark: SparkSession, name: str, killed: Any = None) -> Any:
    """Return the query if it runs, but not the run that was killed: it is listed for a moment."""
    for query in spark.streams.active:
        if query.name == name and (killed is None or query.runId != killed.runId):
            return query
    return None


def _cancel(spark: SparkSession, query: Any) -> bool:
    """Fail the query's Spark job, if it runs one now, and tell whether the query has failed."""
    spark.sparkContext.cancelJobGroup(str(query.runId))
    return not query.isActive


def main() -> int:
    """Run the jobs until a signal arrives; return its exit status."""
    kills, root, *names = sys.argv[1:]
    config = settings.load("")
    options = runner.RunOptions(
        checkpoint_root=root,
        restarts=1000,
        java_options=f"{cds_archive.java_options(config)} {QUICK_JAVA}",
        progress=Path(root) / "progress.jsonl",
        conf=tuple(INTERPRETED.items()),
    )
    jobs = [JOBS[name] for name in names]
    for job in jobs:
        ends_batches = job.default_trigger is not Trigger.REAL_TIME  # which last for minutes
        kill = partial(kill_queries, job.name, int(kills), ends_batches=ends_batches)
        Thread(target=kill, daemon=True).start()
    configured = [ConfiguredJob(job, job.options(), job.default_trigger) for job in jobs]
    return runner.run(configured, config, options, lambda line: print(line, file=sys.stderr))  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
