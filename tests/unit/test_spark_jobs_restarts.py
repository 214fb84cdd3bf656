"""How often, after which wait, and for which failures a query is started again."""

from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException

from events.cli import UserFacingError
from events.status_file import Process
from events.triggers import Trigger
from spark_jobs.runtime.restarts import RestartBudget
from spark_jobs.runtime.status_recorder import StatusRecorder
from spark_jobs.runtime.supervisor import PreparedQuery, Supervisor
from tests.unit.metrics import progress
from tests.unit.statuses import T0


def test_the_wait_doubles_while_the_query_ends_no_batch_and_then_starts_anew() -> None:
    budget = RestartBudget(20)
    waits = [budget.next_delay_s(0.0, had_worked=False) for _ in range(8)]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert budget.next_delay_s(0.0, had_worked=True) == 0.0
    assert budget.next_delay_s(0.0, had_worked=False) == 1.0


def test_no_more_restarts_than_the_limit_within_ten_minutes() -> None:
    budget = RestartBudget(2)
    taken = [budget.next_delay_s(at_s, had_worked=True) for at_s in (0.0, 300.0, 600.0, 600.1)]
    assert taken == [0.0, 0.0, None, 0.0], "the first restart no longer counts"


class Query:
    """A query of Spark that runs until the test ends it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failure: Exception | None = None
        self.isActive = True

    def exception(self) -> Exception | None:
        """Return why it failed."""
        return self.failure

    def end(self, failure: str = "") -> None:
        """End it, or let it fail."""
        self.failure, self.isActive = (RuntimeError(failure) if failure else None), False

    def stop(self) -> None:
        """End it, as the supervisor does."""
        self.isActive = False


class Bench:
    """A supervisor over queries that the test ends, with a clock that runs as it sleeps."""

    def __init__(self, restarts: int = 5, missing: Collection[str] = ()) -> None:
        self.now_s = 0.0
        self.wall_clock_is_ahead_s = 0.0
        self.lines: list[str] = []
        self.started: list[Query] = []
        self.refusals: list[Exception] = []
        self.at: dict[float, Callable[[], None]] = {}
        self.recorder = StatusRecorder(
            Process("spark_jobs", "", ""),
            "broker:9092",
            ["a"],
            "",
            clock=lambda: T0 + int(1000 * (self.now_s + self.wall_clock_is_ahead_s)),
            monotonic=lambda: self.now_s,
        )
        self.supervisor = Supervisor(
            self.recorder,
            lambda _: missing,
            restarts,
            self.lines.append,
            clock=lambda: self.now_s,
            sleep=self.sleep,
        )

    def sleep(self, seconds: float) -> None:
        """Move the clock, and do what is due."""
        self.now_s += seconds
        for at_s in [at_s for at_s in self.at if at_s <= self.now_s]:
            self.at.pop(at_s)()

    def start(self, name: str, trigger: Trigger = Trigger.MICRO_BATCH) -> None:
        """Start a query."""

        def start() -> Any:
            if self.refusals:
                raise self.refusals.pop()
            self.started.append(Query(name))
            return self.started[-1]

        self.supervisor.start(
            PreparedQuery(
                name=name,
                job=name,
                trigger=trigger,
                batch=timedelta(seconds=10),
                sources=("user-actions",),
                topics=frozenset(["user-actions", "user-totals"]),
                start=start,
            )
        )

    def running(self, name: str) -> Query:
        """Return the latest query of this name."""
        return next(query for query in reversed(self.started) if query.name == name)

    def watch(self, until_s: float = 1000.0) -> None:
        """Watch the queries until some second."""
        self.supervisor.watch(lambda: self.now_s >= until_s)


def test_a_failed_query_is_started_again_and_the_others_go_on() -> None:
    on = Bench()
    on.start("a")
    on.start("b")
    on.at[20.0] = lambda: on.running("a").end("no luck.")
    on.watch(until_s=30.0)
    assert [query.name for query in on.started] == ["a", "b", "a"]
    assert on.running("b").isActive
    assert on.lines == ["a failed and is started again now: no luck.", "a runs again"]
    a, b = on.recorder.snapshot().queries
    assert (a.active, a.restarts, a.last_error) == (True, 1, "no luck.")
    assert (b.active, b.restarts, b.last_error) == (True, 0, None)


class JavaError(Py4JJavaError):  # type: ignore[misc] # py4j has no types
    """An exception of the JVM that PySpark has no class for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return f"An error occurred while calling o57.start.\n: {self._text}\n\tat a.B.c(B.java:1)"


def test_a_restart_that_java_refuses_counts_as_a_failure_and_is_tried_again() -> None:
    on = Bench()
    on.start("a")
    on.start("b")
    on.refusals = [JavaError("java.io.IOException: the store is away")]
    on.at[20.0] = lambda: on.running("a").end("no luck.")
    on.watch(until_s=30.0)
    assert [query.name for query in on.started] == ["a", "b", "a"]
    assert on.running("b").isActive
    assert on.lines == [
        "a failed and is started again now: no luck.",
        "a failed and is started again in 1 s: java.io.IOException: the store is away",
        "a runs again",
    ]


def test_batches_work_when_each_query_has_ended_a_batch() -> None:
    on = Bench()
    on.start("a")
    on.start("b")
    on.start("real-time", Trigger.REAL_TIME)
    assert not on.supervisor.batches_work()
    for at_s, name in ((1.0, "a"), (2.0, "b")):
        assert not on.supervisor.batches_work()
        on.now_s = at_s
        on.recorder.on_progress(progress(name=name))
    assert on.supervisor.batches_work()


def test_a_query_that_fails_too_often_ends_the_run_with_its_cause() -> None:
    on = Bench(restarts=2)
    on.start("a")
    for at_s in (20.0, 40.0, 60.0):
        on.at[at_s] = lambda: on.running("a").end("no luck.")
    with pytest.raises(UserFacingError) as failed:
        on.watch()
    assert str(failed.value) == "a failed, after 2 restarts within 10 min: no luck."
    assert on.now_s == pytest.approx(60.2, abs=0.3)


@pytest.mark.parametrize(
    ("trigger", "options", "failure", "sentence"),
    [
        (Trigger.AVAILABLE_NOW, {}, "no luck.", "no luck."),
        (Trigger.MICRO_BATCH, {"restarts": 0}, "no luck.", "no luck."),
        (Trigger.MICRO_BATCH, {}, "[KAFKA_DATA_LOSS.X] gone", "the topic no longer holds"),
        (
            Trigger.REAL_TIME,
            {"missing": ["user-totals"]},
            "UnknownTopicOrPartitionException: none",
            "a topic is missing: run python -m broker topics.",
        ),
    ],
)
def test_what_a_restart_cannot_fix_ends_the_run_at_once(
    trigger: Trigger,
    options: dict[str, Any],
    failure: str,
    sentence: str,
) -> None:
    on = Bench(**options)
    on.start("a", trigger)
    on.running("a").end(failure)
    with pytest.raises(UserFacingError, match=rf"^a failed: {sentence}"):
        on.watch()
    assert len(on.started) == 1


def test_a_broker_that_just_does_not_know_its_topics_yet_ends_nothing() -> None:
    on = Bench()
    on.start("a")
    on.running("a").end("UnknownTopicOrPartitionException: not yet")
    on.watch(until_s=1.0)
    assert on.running("a").isActive


def test_no_query_is_started_while_the_broker_does_not_answer() -> None:
    on = Bench()
    on.start("a")
    on.recorder.on_no_answer()
    on.at[20.0] = lambda: on.running("a").end("no luck.")
    on.at[500.0] = lambda: on.recorder.on_topics({})
    on.watch(until_s=499.0)
    assert len(on.started) == 1
    on.watch(until_s=501.0)
    assert len(on.started) == 2


def test_a_start_that_fails_counts_as_a_failure() -> None:
    on = Bench(restarts=2)
    on.start("a")
    on.running("a").end("no luck.")

    def refuse(_: PreparedQuery) -> Any:
        raise StreamingQueryException("java.io.IOException: no folder")

    (watched,) = on.supervisor._watched
    object.__setattr__(watched.prepared, "start", lambda: refuse(watched.prepared))
    with pytest.raises(UserFacingError, match=r"^a failed, after 2 restarts .*: .*no folder$"):
        on.watch()


def test_available_now_ends_when_everything_is_read() -> None:
    on = Bench()
    on.start("a", Trigger.AVAILABLE_NOW)
    on.running("a").end()
    on.watch()
    assert on.lines == ["a: everything is read"]
    assert on.recorder.snapshot().queries[0].finished


def test_a_stuck_query_is_stopped_and_started_again() -> None:
    on = Bench()
    on.start("a", Trigger.REAL_TIME)
    # The first batch may last 180 s; at twice that only a restart helps.
    on.watch(until_s=359.0)
    assert len(on.started) == 1
    on.watch(until_s=362.0)
    assert [query.isActive for query in on.started] == [False, True]
    assert on.lines[0] == "a failed and is started again now: it has ended no batch for 6 min."


@pytest.mark.parametrize("step_s", [7200.0, -7200.0])
@pytest.mark.parametrize("trigger", [Trigger.REAL_TIME, Trigger.MICRO_BATCH])
def test_a_step_of_the_wall_clock_neither_stops_a_query_nor_hides_a_stuck_one(
    trigger: Trigger, step_s: float
) -> None:
    on = Bench()
    on.start("a", trigger)
    on.recorder.on_topics({"user-actions": 7})

    def step() -> None:
        on.wall_clock_is_ahead_s = step_s

    on.at[100.0] = step
    on.watch(until_s=359.0)
    assert len(on.started) == 1
    on.watch(until_s=362.0)
    assert [query.isActive for query in on.started] == [False, True]


def test_a_restart_after_a_step_back_has_the_time_of_a_first_batch() -> None:
    on = Bench()
    on.start("a")
    on.now_s = 10.0
    on.recorder.on_progress(progress(name="a"))
    on.wall_clock_is_ahead_s = -7200.0
    on.running("a").end("no luck.")
    on.at[11.0] = lambda: on.recorder.on_topics({"user-actions": 1000})
    on.watch(until_s=360.0)
    assert [query.isActive for query in on.started] == [False, True]


@pytest.mark.parametrize("trigger", [Trigger.REAL_TIME, Trigger.MICRO_BATCH])
def test_a_query_is_not_stuck_because_its_driver_was_paused(trigger: Trigger) -> None:
    on = Bench()
    on.start("a", trigger)
    on.recorder.on_topics({"user-actions": 7})

    def pause() -> None:
        on.now_s += 3600.0

    on.at[100.0] = pause
    on.watch(until_s=3600.0 + 100.0 + 359.0)
    assert len(on.started) == 1
    on.watch(until_s=3600.0 + 100.0 + 362.0)
    assert [query.isActive for query in on.started] == [False, True]


@pytest.mark.parametrize("trigger", [Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW])
def test_a_query_that_reads_a_long_backlog_is_not_stuck(trigger: Trigger) -> None:
    on = Bench()
    on.start("a", trigger)
    for at_s in range(1, 1000, 10):
        on.at[at_s] = lambda: on.recorder.on_topics({"user-actions": 10_000_000})
    on.watch(until_s=1000.0)
    assert len(on.started) == 1


def test_a_query_without_a_broker_is_not_stuck() -> None:
    on = Bench()
    on.start("a", Trigger.REAL_TIME)
    on.at[300.0] = on.recorder.on_no_answer
    on.at[350.0] = lambda: on.recorder.on_topics({})
    on.watch(until_s=600.0)
    assert len(on.started) == 1, "it is given time after the broker's return"


def test_a_stuck_query_that_cannot_be_stopped_ends_the_run() -> None:
    on = Bench()
    on.start("a", Trigger.REAL_TIME)

    def hang() -> None:
        raise StreamingQueryException("a timeout")

    on.started[0].stop = hang  # type: ignore[method-assign]
    with pytest.raises(UserFacingError, match=r"^a has ended no batch for 6 min and cannot be "):
        on.watch()
