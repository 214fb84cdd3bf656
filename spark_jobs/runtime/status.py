"""The status of a driver and its queries, and whether they are healthy.

Health checks run every few seconds, so this module loads nothing of Spark.
"""

from collections.abc import Iterator

import msgspec

from events.status_file import MAX_AGE_S, ProgramStatus, age_s, duration, process_problems
from spark_jobs.runtime.triggers import Trigger

PROGRAM = "spark_jobs"
MAX_IDLE_BATCHES = 5
"""So many micro-batches may last without an end while records wait."""
MAX_REAL_TIME_BATCHES = 2
SHORTEST_STALL_S = 30.0
"""No query is stuck earlier: one long garbage collection is longer than five short batches."""
LONGEST_FIRST_BATCH_S = 180.0
"""The first batch after a start compiles code, and may read a long backlog."""


class TopicStatus(msgspec.Struct, kw_only=True):
    """A topic that the queries read: how many records it has ever held, over all partitions."""

    end_offset: int


class QueryStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is known about a query. Absent: it is unknown, or the trigger does not report it.

    - `active`: the query runs. `finished`: it has read everything, under available-now.
    - `batch_s`: a real-time batch's length, or the least time between two micro-batches.
    - `started_time`: its latest start. `last_progress_time`: the end of its latest batch.
    - `input_rows_per_second`, `processed_rows_per_second`: of the latest batch, while it is recent.
      A real-time batch has none.
    - `records_behind`: what the topics hold beyond the latest batch; unknown in Real-time Mode.
    - `waiting_since`: since when records have waited without a batch that ended.
    - `watermark_delay_s`: by how much the watermark is behind the clock.
    - `late_records`, `records_left_out`: since the driver started, up to the latest batch.
    - `state_rows`, `state_bytes`: after the latest batch; Spark does not count every query's rows.
    - `batch_duration_ms`: of the latest batch by phase; `triggerExecution` is the whole.
    - `restarts`: since the driver started. `last_error`: why the query failed last, as a sentence.
    """

    name: str
    job: str
    trigger: str
    topics: list[str]
    batch_s: float
    active: bool
    started_time: str
    finished: bool
    restarts: int
    batch_id: int | None = None
    last_progress_time: str | None = None
    last_progress_age_s: float | None = None
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    records_behind: int | None = None
    waiting_since: str | None = None
    watermark: str | None = None
    watermark_delay_s: float | None = None
    late_records: int | None = None
    records_left_out: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    batch_duration_ms: dict[str, int] | None = None
    last_error: str | None = None
    last_error_time: str | None = None


class DriverStatus(ProgramStatus, kw_only=True, omit_defaults=True):
    """What a driver says about itself; `topics` are by their names on the broker."""

    jobs: list[str]
    checkpoint_root: str
    topics: dict[str, TopicStatus]
    queries: list[QueryStatus]


def problems(driver: DriverStatus, at_ms: int) -> list[str]:
    """Return what is wrong with a driver, as sentences; none when it is healthy."""
    of_the_process = [
        f"{text} (jobs: {', '.join(driver.jobs)})" if text.startswith("process") else text
        for text in process_problems(driver, at_ms)
    ]
    return of_the_process or [
        sentence for query in driver.queries for sentence in _query_problems(query, at_ms)
    ]


def _query_problems(query: QueryStatus, at_ms: int) -> Iterator[str]:
    if query.finished:
        return
    if not query.active:
        since_s = age_s(query.last_error_time or query.started_time, at_ms)
        if since_s > MAX_AGE_S:
            because = f": {query.last_error}" if query.last_error else "."
            yield f"{query.name} has not run for {duration(since_s)}{because}"
        return
    stuck_s = stuck_for_s(query, at_ms)
    if stuck_s > longest_stall_s(query):
        although = "" if query.trigger == Trigger.REAL_TIME else ", although records wait"
        yield f"{query.name} has ended no batch for {duration(stuck_s)}{although}."


def stuck_for_s(query: QueryStatus, at_ms: int) -> float:
    """Return how long a query has ended no batch although it should; 0 if it need not."""
    since = query.waiting_since
    if query.trigger == Trigger.REAL_TIME:  # its batches end by the clock
        since = max(query.started_time, query.last_progress_time or "")
    return age_s(since, at_ms) if since else 0.0


def longest_stall_s(query: QueryStatus) -> float:
    """Return how long a query may end no batch."""
    if query.trigger == Trigger.REAL_TIME:
        stall_s = MAX_REAL_TIME_BATCHES * query.batch_s
    else:
        last_s = (query.batch_duration_ms or {}).get("triggerExecution", 0) / 1000
        stall_s = MAX_IDLE_BATCHES * max(query.batch_s, last_s)
    is_first = query.last_progress_time is None or query.last_progress_time < query.started_time
    return max(stall_s, LONGEST_FIRST_BATCH_S if is_first else SHORTEST_STALL_S)
