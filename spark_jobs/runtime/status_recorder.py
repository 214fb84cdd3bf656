"""Collect what a driver knows about its queries: from the runner, Spark's progress, the broker."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from msgspec.structs import replace

from events.driver_status import DriverStatus, QueryStatus, TopicStatus
from events.status_file import BrokerStatus, Process, age_s
from events.times import now_ms, to_text
from events.triggers import Trigger
from spark_jobs.runtime.progress import BEGINNING

RATES_COUNT_S = 10.0
"""Rates of a batch that ended longer ago are not shown: they would be stale."""
PAUSED_AFTER_S = 10.0
"""The status is written every second. After a longer silence the whole driver was paused."""


@dataclass(slots=True)
class _Moments:
    """When a query last was started or ended a batch, and when it began to let records wait.

    In seconds of the monotonic clock: the wall clock may be set at any time.
    """

    latest_s: float
    waiting_since_s: float | None = None


class StatusRecorder:
    """What is known now; every method may be called from any thread.

    In: `servers` is the broker's address; `jobs` are the driver's task, by which a successor
    recognises the status of a driver that has ended; `clock` returns epoch milliseconds,
    `monotonic` the seconds by which it is decided whether a query is stuck.
    """

    def __init__(
        self,
        process: Process,
        servers: str,
        jobs: Sequence[str],
        checkpoint_root: str,
        clock: Callable[[], int] = now_ms,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._process, self._jobs, self._checkpoint_root = process, list(jobs), checkpoint_root
        self._clock, self._monotonic = clock, monotonic
        self._lock = Lock()
        # The runner has asked the broker for its topics before.
        self._broker = BrokerStatus(servers=servers, reachable=True, since=to_text(clock()))
        self._broker_since_s = self._latest_s = self._resumed_s = monotonic()
        self._ends: dict[str, int] = {}
        self._queries: dict[str, QueryStatus] = {}
        self._moments: dict[str, _Moments] = {}
        self._reached: dict[str, dict[str, int]] = {}

    def on_start(
        self, name: str, job: str, trigger: Trigger, topics: Sequence[str], batch_s: float
    ) -> None:
        """Take note that a query has been started; `topics` have their names on the broker."""
        with self._lock:
            before = self._queries.get(name)
            self._moments[name] = _Moments(self._monotonic())
            if before:
                self._queries[name] = replace(
                    before,
                    active=True,
                    started_time=self._now(),
                    waiting_since=None,
                    waiting_records=None,
                    worked=False,
                    restarts=before.restarts + 1,
                )
                return
            self._queries[name] = QueryStatus(
                name=name,
                job=job,
                trigger=trigger.value,
                topics=list(topics),
                batch_s=batch_s,
                active=True,
                started_time=self._now(),
                finished=False,
                restarts=0,
            )

    def on_failure(self, name: str, error: str) -> None:
        """Take note that a query has failed, or that starting it again has."""
        with self._lock:
            query = self._queries[name]
            query.active, query.last_error, query.last_error_time = False, error, self._now()
            self._set_waiting(query, None)

    def on_finish(self, name: str) -> None:
        """Take note that a query has read everything."""
        with self._lock:
            query = self._queries[name]
            query.active, query.finished = False, True
            self._set_waiting(query, None)

    def on_progress(self, progress: Mapping[str, Any]) -> None:
        """Take note of a batch: Spark's progress with the fields that `BatchListener` adds."""
        with self._lock:
            query = self._queries.get(progress["name"])
            if query is None:
                return
            query.batch_id = progress["batchId"]
            query.last_progress_time, query.worked = self._now(), True
            self._moments[query.name].latest_s = self._monotonic()
            self._set_waiting(query, None)
            query.batch_duration_ms = dict(progress["durationMs"])
            if query.trigger != Trigger.REAL_TIME:
                query.input_rows_per_second = progress.get("inputRowsPerSecond")
                query.processed_rows_per_second = progress.get("processedRowsPerSecond")
            watermark = progress.get("eventTime", {}).get("watermark", BEGINNING)
            query.watermark = None if watermark == BEGINNING else watermark
            query.late_records = _add(query.late_records, progress["late_records"])
            query.records_left_out = _add(query.records_left_out, progress["records_left_out"])
            operators = progress["stateOperators"]
            if operators:
                # Spark reports 0 where it does not count the rows.
                query.state_rows = sum(int(one["numRowsTotal"]) for one in operators) or None
                query.state_bytes = sum(int(one["memoryUsedBytes"]) for one in operators)
            self._reached[query.name] = reached(progress)
            self._update_waiting(query)

    def on_topics(self, ends: Mapping[str, int]) -> None:
        """Take note of the topics' sums of end offsets: the broker has answered."""
        with self._lock:
            self._set_reachable(reachable=True)
            self._ends = dict(ends)
            for query in self._queries.values():
                self._update_waiting(query)

    def on_no_answer(self) -> None:
        """Take note that the broker has not answered."""
        with self._lock:
            self._set_reachable(reachable=False)
            # Without the broker no query can go on: it is not stuck.
            for query in self._queries.values():
                self._set_waiting(query, None)

    @property
    def broker_is_reachable(self) -> bool:
        """Whether the broker has answered last time."""
        return self._broker.reachable

    def broker_answers_for(self, seconds: float) -> bool:
        """Tell whether the broker has answered for so long, each time."""
        return self._broker.reachable and self._monotonic() - self._broker_since_s >= seconds

    def query(self, name: str) -> QueryStatus:
        """Return the status of a query now."""
        with self._lock:
            self._notice_pause()
            return self._current(self._queries[name], self._clock())

    def has_worked(self, name: str) -> bool:
        """Tell whether a query has ended a batch since its last start."""
        return self._queries[name].worked

    def snapshot(self) -> DriverStatus:
        """Return the status now."""
        with self._lock:
            self._notice_pause()
            at_ms = self._clock()
            reads = {topic for query in self._queries.values() for topic in query.topics}
            return DriverStatus(
                **self._process.header() | {"written_time": to_text(at_ms)},
                broker=replace(self._broker),
                jobs=self._jobs,
                checkpoint_root=self._checkpoint_root,
                topics={
                    topic: TopicStatus(end_offset=end)
                    for topic, end in sorted(self._ends.items())
                    if topic in reads
                },
                queries=[self._current(query, at_ms) for query in self._queries.values()],
            )

    def _current(self, query: QueryStatus, at_ms: int) -> QueryStatus:
        """Return a query with what depends on the time, and without what is stale."""
        progress_s = age_s(query.last_progress_time, at_ms) if query.last_progress_time else None
        is_recent = progress_s is not None and progress_s <= query.batch_s + RATES_COUNT_S
        shows_rates = query.active and is_recent
        return replace(
            query,
            last_progress_age_s=progress_s,
            input_rows_per_second=query.input_rows_per_second if shows_rates else None,
            processed_rows_per_second=query.processed_rows_per_second if shows_rates else None,
            records_behind=self._behind(query),
            without_batch_s=self._without_batch_s(query),
            watermark_delay_s=age_s(query.watermark, at_ms) if query.watermark else None,
        )

    def _without_batch_s(self, query: QueryStatus) -> float | None:
        moments = self._moments[query.name]
        since_s = moments.waiting_since_s
        if query.trigger == Trigger.REAL_TIME and query.active:  # its batches end by the clock
            since_s = moments.latest_s
        return None if since_s is None else self._latest_s - max(since_s, self._resumed_s)

    def _notice_pause(self) -> None:
        """Count anew if the driver was paused: a paused query ends no batch and is not stuck.

        The writer of the status and the supervisor both ask often, each on its own thread.
        """
        at_s = self._monotonic()
        if at_s - self._latest_s > PAUSED_AFTER_S:
            self._resumed_s = at_s
        self._latest_s = at_s

    def _behind(self, query: QueryStatus) -> int | None:
        reached_by_topic = self._reached.get(query.name)
        if (
            query.trigger == Trigger.REAL_TIME
            or reached_by_topic is None
            or not self._broker.reachable
            or not self._ends.keys() >= set(query.topics)
        ):
            return None
        return sum(
            max(0, self._ends[topic] - reached_by_topic.get(topic, 0)) for topic in query.topics
        )

    def _update_waiting(self, query: QueryStatus) -> None:
        if not query.active:
            return
        if query.name in self._reached:
            records = self._behind(query) or 0
        else:  # no batch yet: it may have to read all that the topics hold
            records = sum(self._ends.get(topic, 0) for topic in query.topics)
        if not records or query.trigger == Trigger.REAL_TIME:
            self._set_waiting(query, None)
        elif query.waiting_since is None:
            self._set_waiting(query, records)

    def _set_waiting(self, query: QueryStatus, records: int | None) -> None:
        query.waiting_records = records
        query.waiting_since = self._now() if records else None
        self._moments[query.name].waiting_since_s = self._monotonic() if records else None

    def _set_reachable(self, *, reachable: bool) -> None:
        if self._broker.reachable != reachable:
            self._broker = replace(self._broker, reachable=reachable, since=self._now())
            self._broker_since_s = self._monotonic()

    def _now(self) -> str:
        return to_text(self._clock())


def reached(progress: Mapping[str, Any]) -> dict[str, int]:
    """Return the sum of a batch's end offsets for each topic, by its name on the broker."""
    return {
        topic: sum(map(int, partitions.values()))
        for source in progress["sources"]
        if isinstance(source.get("endOffset"), dict)
        for topic, partitions in source["endOffset"].items()
    }


def _add(total: int | None, more: int | None) -> int | None:
    return total if more is None else (total or 0) + more
