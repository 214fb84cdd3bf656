"""The dashboard's view of the pipeline: rates, latencies, drivers and their queries."""

import socket
from pathlib import Path

import msgspec
import pytest

from dashboard.drivers import read_alerting, read_drivers
from dashboard.page_records import AlertingView, DriverView
from dashboard.pipeline import LATENCY_MS, NO_ALERTING, RATE_POINTS, Pipeline
from events import alerting_status
from events.alerting_status import AlertingStatus
from events.driver_status import PROGRAM
from events.status_file import (
    FOLDER_VARIABLE,
    BrokerStatus,
    Process,
    status_folder,
    write_status,
)
from events.times import to_text
from tests.builders import START, T0
from tests.driver_statuses import driver, query


def alerting(pid: int = 1, **changes: object) -> AlertingStatus:
    """Return the status of an alerting process on another host."""
    header = Process(alerting_status.PROGRAM, "", START).header() | {"host": "elsewhere"}
    fields = {"written_time": START, "last_cycle_time": START, "pid": pid}
    return AlertingStatus(
        **header | fields | changes,
        broker=BrokerStatus(servers="broker:9092", reachable=True, since=START),
        database="alerting.sqlite3",
    )


def driver_view() -> DriverView:
    """Return a driver that runs."""
    return DriverView(host="elsewhere", pid=1, healthy=True, written_time_ms=T0, error=None)


def test_rates_follow_from_the_counts() -> None:
    pipeline = Pipeline()
    for second in range(RATE_POINTS + 10):
        counts = {"rack-readings": 100 * second, "alerts": 3 * second, "alert-commands": 9 * second}
        pipeline.set_counts(counts, T0 + 1000 * second)
    rates = pipeline.view(T0).rates
    assert len(rates.into) == len(rates.out) == RATE_POINTS
    assert rates.into[-1] == (T0 + 1000 * (RATE_POINTS + 9), 100.0)
    assert {rate for _, rate in rates.out} == {3.0}


def test_a_clock_that_steps_back_makes_no_absurd_rate() -> None:
    pipeline = Pipeline()
    for number, at_ms in enumerate((T0, T0 + 1000, T0 - 60_000, T0 - 59_000)):
        pipeline.set_counts({"rack-readings": 500 * number}, at_ms)
    assert pipeline.view(T0).rates.into == [(T0 - 59_000, 500.0)]


def test_a_topic_that_is_not_counted_for_a_while_changes_no_rate() -> None:
    pipeline = Pipeline()
    others = {"ad-clicks": 5, "alerts": 9}
    for second, counts in enumerate(
        (
            {"rack-readings": 1000, **others},
            others,
            {"rack-readings": 1020, **others},
            {"rack-readings": 1030, "incidents": 7000, **others},
            {"rack-readings": 2, "incidents": 7004, **others},  # made anew
        )
    ):
        pipeline.set_counts(counts, T0 + 1000 * second)
    rates = pipeline.view(T0).rates
    assert [rate for _, rate in rates.into] == [0.0, 0.0, 10.0, 0.0]
    assert [rate for _, rate in rates.out] == [0.0, 0.0, 0.0, 4.0]


def test_latencies_are_those_of_the_last_minute() -> None:
    pipeline = Pipeline()
    pipeline.add_latency(T0, 99_999)
    for latency_ms in range(1, 101):
        pipeline.add_latency(T0 + 1000, latency_ms)
    recent = pipeline.view(T0 + LATENCY_MS).latency_ms
    assert (recent.p50, recent.p99, recent.count) == (50, 99, 100)
    none = pipeline.view(T0 + 2 * LATENCY_MS).latency_ms
    assert (none.p50, none.p99, none.count) == (None, None, 0)


def test_the_queries_of_these_topics_are_shown(tmp_path: Path) -> None:
    write_status(status_folder(tmp_path) / f"{PROGRAM}-a-1.json", driver(query(), prefix="p-"))
    write_status(status_folder(tmp_path) / f"{PROGRAM}-b-2.json", driver(query(), prefix="other-"))
    (status_folder(tmp_path) / f"{PROGRAM}-c-3.json").write_bytes(b"{")
    drivers, queries = read_drivers(tmp_path, "p-", T0)
    assert [(each.host, each.healthy) for each in drivers] == [("elsewhere", True)]
    (shown,) = queries
    assert (shown.name, shown.topics, shown.active) == ("overheating", ["rack-readings"], True)
    assert (shown.restarts, shown.lag, shown.last_progress_ms) == (1, 7, T0)
    pipeline = Pipeline()
    assert pipeline.view(T0).lag is None, "nobody says it"
    pipeline.set_queries(drivers, queries)
    view = pipeline.view(T0)
    assert (view.lag, view.late_rows, view.left_out) == (7, 2, 3)


def test_the_lag_is_that_of_the_query_that_is_behind_most(tmp_path: Path) -> None:
    queries = [
        query("stopped", active=False, records_behind=900),
        query("behind", records_behind=50),
        query("real-time", records_behind=None),
        query("reads the same records", records_behind=40),
    ]
    write_status(status_folder(tmp_path) / f"{PROGRAM}-a-1.json", driver(*queries))
    pipeline = Pipeline()
    assert pipeline.view(T0).lag_query is None
    pipeline.set_queries(*read_drivers(tmp_path, "", T0))
    view = pipeline.view(T0)
    assert (view.lag, view.lag_query, view.late_rows, view.left_out) == (50, "behind", 8, 12)


@pytest.mark.parametrize(("age_s", "is_healthy"), [(5, True), (60, False)])
def test_a_driver_that_hangs_has_no_active_query(
    tmp_path: Path, age_s: int, is_healthy: bool
) -> None:
    write_status(status_folder(tmp_path) / f"{PROGRAM}-a-1.json", driver(query()))
    drivers, queries = read_drivers(tmp_path, "", T0 + 1000 * age_s)
    assert [each.healthy for each in drivers] == [is_healthy]
    assert [each.active for each in queries] == [is_healthy]
    assert bool(drivers[0].error) is not is_healthy


def test_a_query_that_ends_no_batch_although_records_wait_is_stuck(tmp_path: Path) -> None:
    waits = query("waits", trigger="micro-batch", without_batch_s=600.0, waiting_records=7)
    status = driver(waits, query("works"))
    write_status(status_folder(tmp_path) / f"{PROGRAM}-a-1.json", status)
    drivers, queries = read_drivers(tmp_path, "", T0)
    assert [each.healthy for each in drivers] == [True], "its process works"
    assert [(each.name, each.active, each.stuck) for each in queries] == [
        ("waits", True, True),
        ("works", True, False),
    ]
    assert queries[0].error == "waits has ended no batch for 10 min, although records wait."


@pytest.mark.parametrize(
    "changes",
    [{"written_time": "2026-02-30T00:00:00.000Z"}, {"written_time": "now"}, {"pid": 2**40}],
)
def test_an_impossible_status_hides_no_other(tmp_path: Path, changes: dict[str, object]) -> None:
    wrong = msgspec.structs.replace(driver(query()), host=socket.gethostname())
    folder = status_folder(tmp_path)
    write_status(folder / f"{PROGRAM}-a-1.json", msgspec.structs.replace(wrong, **changes))
    wrong_query = query("wrong", last_progress_time="2026-02-30T00:00:00.000Z")
    write_status(folder / f"{PROGRAM}-b-2.json", driver(wrong_query))
    write_status(folder / f"{PROGRAM}-c-3.json", driver(query()))
    drivers, queries = read_drivers(tmp_path, "", T0)
    assert ([each.host for each in drivers], [each.name for each in queries]) == (
        ["elsewhere"],
        ["overheating"],
    )


def test_alerting_works_while_one_of_its_processes_does(tmp_path: Path) -> None:
    assert read_alerting(tmp_path, "", T0) is None
    folder = status_folder(tmp_path)
    write_status(folder / "alerting-a-1.json", alerting(1))
    write_status(folder / "alerting-a-2.json", alerting(2, error="the disk is full."))
    write_status(folder / "alerting-a-3.json", alerting(3, topic_prefix="other-"))
    write_status(folder / "alerting-a-4.json", alerting(4, written_time="2026-02-30T00:00:00Z"))
    works = AlertingView(healthy=True, as_of_ms=T0, error=None)
    assert read_alerting(tmp_path, "", T0 + 1000) == works
    hangs = read_alerting(tmp_path, "", T0 + 60_000)
    assert hangs is not None
    assert (hangs.healthy, hangs.as_of_ms, bool(hangs.error)) == (False, T0, True)
    (folder / "alerting-a-1.json").unlink()
    ended = AlertingView(healthy=False, as_of_ms=T0, error="process 2 has ended: the disk is full.")
    assert read_alerting(tmp_path, "", T0) == ended


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"last_cycle_time": START}, "process 1 has read no records for 90 s"),
        ({"unpublished_since": START}, "process 1 could not publish incidents for 90 s"),
    ],
)
def test_alerting_that_runs_but_publishes_no_incidents_does_not_work(
    tmp_path: Path, changes: dict[str, str], problem: str
) -> None:
    at_ms = T0 + 90_000
    now = to_text(at_ms)
    changes = {"written_time": now, "last_cycle_time": now} | changes
    status = alerting(1, **changes)
    write_status(status_folder(tmp_path) / "alerting-a-1.json", status)
    found = read_alerting(tmp_path, "", at_ms)
    assert found is not None and found.error is not None
    assert (found.healthy, found.as_of_ms) == (False, T0), "the incidents are as of then"
    assert found.error.startswith(problem)


def test_alerting_without_a_status_does_not_run_where_it_would_have_one() -> None:
    pipeline = Pipeline()
    pipeline.set_alerting(None)
    assert pipeline.view(T0).alerting is None, "nothing is known"
    works = AlertingView(healthy=True, as_of_ms=T0, error=None)
    pipeline.set_alerting(works)
    assert pipeline.view(T0).alerting == works
    pipeline.set_alerting(None)
    ended = AlertingView(healthy=False, as_of_ms=T0, error=NO_ALERTING)
    assert pipeline.view(T0).alerting == ended
    pipeline = Pipeline()
    pipeline.set_queries([driver_view()], [])
    pipeline.set_alerting(None)
    never_seen = msgspec.structs.replace(ended, as_of_ms=None)
    assert pipeline.view(T0).alerting == never_seen


def test_status_files_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "shared"))
    assert status_folder(tmp_path) == tmp_path / "shared"
    write_status(tmp_path / "shared" / f"{PROGRAM}-a-1.json", driver(query()))
    assert len(read_drivers(tmp_path / "home", "", T0)[0]) == 1
