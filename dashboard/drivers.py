"""Describe the drivers, their queries and alerting, by the status files that they write."""

from collections.abc import Sequence
from pathlib import Path

from dashboard.page_records import AlertingView, DriverView, QueryView
from events import alerting_health, alerting_status
from events.alerting_status import AlertingStatus
from events.driver_health import query_problem
from events.driver_status import PROGRAM, DriverStatus, QueryStatus
from events.status_file import FORGOTTEN_AFTER_S, age_s, find_statuses, process_problems
from events.times import to_ms

MAX_DRIVERS = 20
MAX_ERROR_CHARACTERS = 500


def read_drivers(
    home: Path, topic_prefix: str, now_ms: int
) -> tuple[list[DriverView], list[QueryView]]:
    """Return the drivers of these topics and their queries; what cannot be read is left out."""
    found = list[tuple[DriverView, list[QueryView]]]()
    for status in find_statuses(home, PROGRAM, DriverStatus).statuses:
        if (
            status.topic_prefix == topic_prefix
            and age_s(status.written_time, now_ms) < FORGOTTEN_AFTER_S
        ):
            driver = _driver_view(status, now_ms)
            queries = [_query_view(query, status, driver, now_ms) for query in status.queries]
            found.append((driver, queries))
    newest = found[-MAX_DRIVERS:]
    return [driver for driver, _ in newest], [query for _, queries in newest for query in queries]


def read_alerting(home: Path, topic_prefix: str, now_ms: int) -> AlertingView | None:
    """Return whether alerting works for these topics; None if no status of it is found.

    Of several processes one that works is enough, as each publishes all incidents.
    """
    found = list[AlertingView]()
    for status in find_statuses(home, alerting_status.PROGRAM, AlertingStatus).statuses:
        if status.topic_prefix == topic_prefix:
            error = _first(alerting_health.problems(status, now_ms))
            as_of_ms = to_ms(alerting_health.incidents_as_of(status))
            found.append(AlertingView(healthy=not error, as_of_ms=as_of_ms, error=error))
    return max(found, key=lambda one: (one.healthy, one.as_of_ms), default=None)


def _first(problems: Sequence[str]) -> str | None:
    return problems[0][:MAX_ERROR_CHARACTERS] if problems else None


def _driver_view(status: DriverStatus, now_ms: int) -> DriverView:
    error = _first(process_problems(status, now_ms))
    return DriverView(
        host=status.host,
        pid=status.pid,
        healthy=error is None,
        written_time_ms=to_ms(status.written_time),
        error=error,
    )


def _query_view(
    query: QueryStatus, status: DriverStatus, driver: DriverView, now_ms: int
) -> QueryView:
    active = query.active and driver.healthy
    stuck = query_problem(query, now_ms) if active else None
    error = stuck or query.last_error
    return QueryView(
        name=query.name,
        job=query.job,
        trigger=query.trigger,
        host=status.host,
        topics=[topic.removeprefix(status.topic_prefix) for topic in query.topics],
        active=active,
        stuck=stuck is not None,
        finished=query.finished,
        restarts=query.restarts,
        state_rows=query.state_rows,
        state_bytes=query.state_bytes,
        last_progress_ms=to_ms(query.last_progress_time) if query.last_progress_time else None,
        rows_per_second=query.processed_rows_per_second,
        lag=query.records_behind,
        late_records=query.late_records,
        records_left_out=query.records_left_out,
        error=error[:MAX_ERROR_CHARACTERS] if error else None,
    )
