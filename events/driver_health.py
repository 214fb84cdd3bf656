"""Judge whether a driver and its queries are healthy, by their status (`events.driver_status`).

The jobs' commands, their supervisor and the dashboard use it. Health checks run every few seconds,
so this module loads nothing of Spark.
"""

from events.driver_status import DriverStatus, QueryStatus
from events.status_file import MAX_AGE_S, age_s, duration, process_problems
from events.triggers import Trigger

MAX_IDLE_BATCHES = 5
"""So many micro-batches may last without an end while records wait."""
MAX_REAL_TIME_BATCHES = 2
SHORTEST_STALL_S = 30.0
"""No query is stuck earlier: one long garbage collection is longer than five short batches."""
LONGEST_FIRST_BATCH_S = 180.0
"""The first batch after a start compiles code."""
SLOWEST_RECORDS_PER_S = 5_000
"""A batch that reads a backlog may last so much longer: `silent_sensor` reads a whole topic in one.

Of a busy machine with two processors; an idle one reads ten times as many.
"""


def problems(driver: DriverStatus, at_ms: int) -> list[str]:
    """Return what is wrong with a driver, as sentences; none when it is healthy."""
    of_the_process = [
        f"{text} (jobs: {', '.join(driver.jobs)})" if text.startswith("process") else text
        for text in process_problems(driver, at_ms)
    ]
    return of_the_process or [
        sentence for query in driver.queries if (sentence := query_problem(query, at_ms))
    ]


def query_problem(query: QueryStatus, at_ms: int) -> str | None:
    """Return what is wrong with a query, as a sentence; None when it runs or has finished."""
    if query.finished:
        return None
    if not query.active:
        since_s = age_s(query.last_error_time or query.started_time, at_ms)
        if since_s <= MAX_AGE_S:
            return None
        because = f": {query.last_error}" if query.last_error else "."
        return f"{query.name} has not run for {duration(since_s)}{because}"
    stuck_s = query.without_batch_s or 0.0
    if stuck_s <= longest_stall_s(query):
        return None
    although = "" if query.trigger == Trigger.REAL_TIME else ", although records wait"
    return f"{query.name} has ended no batch for {duration(stuck_s)}{although}."


def longest_stall_s(query: QueryStatus) -> float:
    """Return how long a query may end no batch."""
    if query.trigger == Trigger.REAL_TIME:
        stall_s = MAX_REAL_TIME_BATCHES * query.batch_s
    else:
        last_s = (query.batch_duration_ms or {}).get("triggerExecution", 0) / 1000
        stall_s = MAX_IDLE_BATCHES * max(query.batch_s, last_s)
    least_s = SHORTEST_STALL_S if query.worked else LONGEST_FIRST_BATCH_S
    return max(stall_s, least_s) + (query.waiting_records or 0) / SLOWEST_RECORDS_PER_S
