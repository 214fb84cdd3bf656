"""Watch queries until they end, and start failed ones again from their checkpoints."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from events.cli import UserFacingError
from events.driver_health import longest_stall_s
from events.status_file import duration
from events.triggers import Trigger
from spark_jobs.runtime.failures import explain, is_permanent, names_a_missing_topic
from spark_jobs.runtime.restarts import WINDOW_S, RestartBudget
from spark_jobs.runtime.status_recorder import StatusRecorder

LOOK_EVERY_S = 0.2
WORKS_AFTER_S = 10.0
"""A query that has run for so long counts as working: a real-time batch ends after minutes."""
MAX_STALLS = 2
"""A query is stopped and started again after so many times the stall that is unhealthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query that can be started, any number of times, from its checkpoint.

    `topics` are the topics that it needs, by their names on the broker: `sources`, and its sink.
    """

    name: str
    job: str
    trigger: Trigger
    batch: timedelta
    sources: tuple[str, ...]
    topics: frozenset[str]
    start: Callable[[], StreamingQuery]


@dataclass(slots=True)
class _Watched:
    prepared: PreparedQuery
    budget: RestartBudget
    query: StreamingQuery
    started_s: float
    due_s: float | None = None
    """When to start it again; None while it runs."""


class Supervisor:
    """Starts queries, and watches them.

    - `missing_topics` returns those of some topics that the broker says do not exist.
    - `restarts` is the most restarts of one query in ten minutes.
    - `log` receives a line for each failure, restart and end of a query.
    - `clock` and `sleep` are in seconds.
    """

    def __init__(
        self,
        recorder: StatusRecorder,
        missing_topics: Callable[[Collection[str]], Collection[str]],
        restarts: int,
        log: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._recorder, self._missing_topics = recorder, missing_topics
        self._restarts, self._log = restarts, log
        self._watched: list[_Watched] = []

    def start(self, prepared: PreparedQuery) -> None:
        """Start a query for the first time; what Spark raises is passed on."""
        self._take_note_of_start(prepared)  # before its first batch can end
        query, budget = prepared.start(), RestartBudget(self._restarts)
        self._watched.append(_Watched(prepared, budget, query, self._clock()))

    def watch(self, is_stopped: Callable[[], bool]) -> None:
        """Return when all queries have ended, or when `is_stopped`.

        Raises `UserFacingError` when a query has failed for good.
        """
        while self._watched and not is_stopped():
            for one in list(self._watched):
                if one.due_s is not None:
                    self._start_again(one)
                elif one.query.isActive:
                    self._end_stall(one)
                elif (failure := one.query.exception()) is not None:
                    self._on_failure(one, failure)
                else:
                    self._watched.remove(one)
                    self._recorder.on_finish(one.prepared.name)
                    self._log(f"{one.prepared.name}: everything is read")
            self._sleep(LOOK_EVERY_S)

    def queries(self) -> Sequence[StreamingQuery]:
        """Return the queries that may be running."""
        return [one.query for one in self._watched]

    def batches_work(self) -> bool:
        """Tell whether every query but those in Real-time Mode has ended a batch since its start.

        A query with available-now may have ended altogether.
        """
        return all(
            self._recorder.has_worked(one.prepared.name)
            for one in self._watched
            if one.prepared.trigger is not Trigger.REAL_TIME
        )

    def _on_failure(self, one: _Watched, failure: Exception) -> None:
        name, cause = one.prepared.name, explain(failure)
        self._recorder.on_failure(name, cause)
        if one.prepared.trigger is Trigger.AVAILABLE_NOW or not self._restarts:
            raise UserFacingError(f"{name} failed: {cause}")
        if is_permanent(failure) or (
            names_a_missing_topic(failure) and self._missing_topics(one.prepared.topics)
        ):
            raise UserFacingError(f"{name} failed: {cause}")
        now_s = self._clock()
        had_worked = now_s - one.started_s >= WORKS_AFTER_S or self._recorder.has_worked(name)
        delay_s = one.budget.next_delay_s(now_s, had_worked=had_worked)
        if delay_s is None:
            raise UserFacingError(
                f"{name} failed, after {self._restarts} restarts within {duration(WINDOW_S)}: "
                f"{cause}"
            )
        one.due_s = now_s + delay_s
        when = f"in {duration(delay_s)}" if delay_s else "now"
        self._log(f"{name} failed and is started again {when}: {cause}")

    def _start_again(self, one: _Watched) -> None:
        # Without the broker every start would fail after a minute, and use up the restarts.
        if self._clock() < (one.due_s or 0.0) or not self._recorder.broker_is_reachable:
            return
        one.started_s, one.due_s = self._clock(), None
        self._take_note_of_start(one.prepared)
        try:
            one.query = one.prepared.start()
        except (PySparkException, Py4JJavaError) as failure:
            self._on_failure(one, failure)
            return
        self._log(f"{one.prepared.name} runs again")

    def _end_stall(self, one: _Watched) -> None:
        """Stop a query that has been stuck for long: only a restart helps."""
        status = self._recorder.query(one.prepared.name)
        stuck_s, limit_s = status.without_batch_s or 0.0, MAX_STALLS * longest_stall_s(status)
        if stuck_s <= limit_s or not self._recorder.broker_answers_for(limit_s):
            return
        name = one.prepared.name
        try:
            one.query.stop()
        except (PySparkException, Py4JError):
            raise UserFacingError(
                f"{name} has ended no batch for {duration(stuck_s)} and cannot be stopped: "
                "start the jobs again; they continue from their checkpoints."
            ) from None
        self._on_failure(one, StuckError(f"it has ended no batch for {duration(stuck_s)}."))

    def _take_note_of_start(self, prepared: PreparedQuery) -> None:
        self._recorder.on_start(
            prepared.name,
            prepared.job,
            prepared.trigger,
            prepared.sources,
            prepared.batch.total_seconds(),
        )


class StuckError(Exception):
    """A query ran, and did nothing."""
