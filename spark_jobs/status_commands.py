"""Provide `status` and `health`, which read the drivers' status files and load no Spark."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from events import alerting_health, alerting_status
from events.alerting_status import AlertingStatus
from events.cli import UserFacingError
from events.driver_health import problems
from events.driver_status import PROGRAM, DriverStatus, QueryStatus
from events.status_file import (
    FOLDER_VARIABLE,
    Found,
    ProgramStatus,
    age_s,
    duration,
    find_home,
    find_statuses,
    has_ended,
    problems_found,
    process_problems,
    require_healthy,
    status_folder,
)
from events.times import now_ms

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WATCH_INTERVAL_S = 1.0

app = typer.Typer()


@app.command()
def status(
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Write the status files as one JSON array, each with its problems; "
            "with --watch an array per line.",
        ),
    ] = False,
) -> None:
    """Show the queries of all drivers: last batch, lag, rates, late records, restarts, errors.

    Below them is a line for each producer and alerting process: it runs, or what is wrong with it.

    LATEST is how long ago the latest batch ended, LAG how many records the topics hold beyond it,
    and IN/S the rate of records read. LATE counts the records that were dropped as late, and
    SKIPPED those that were left out as unreadable or from the future, since the driver started. In
    Real-time Mode Spark reports no lag and no rate. `-` is unknown, and not 0.

    Exit status 1 if no driver has a status, or if a status file cannot be read.
    """
    if not watch:
        found = _find()
        if as_json:
            typer.echo(msgspec.json.format(_to_json(found.statuses, now_ms())))
        else:
            _show(_new_console(), found)
        require_healthy(found.unreadable)
        return
    with suppress(KeyboardInterrupt):
        for found in _find_again_and_again():
            if as_json:
                typer.echo(_to_json(found.statuses, now_ms()))
            else:
                console = _new_console()
                if console.is_terminal:
                    console.clear()
                _show(console, found)


@app.command()
def health() -> None:
    """Say whether the drivers of this host work: exit 0, or 1 and one sentence why not.

    Unhealthy: a driver has ended or hangs, the broker does not answer, a query does not run, a
    micro-batch query ends no batch although records wait, or a real-time query ends no batch. How
    long each of these may last: docs/operations.md, Status and health.
    """
    at_ms = now_ms()
    found = _find(host=socket.gethostname())
    require_healthy(problems_found(found, problems, at_ms))
    queries = sum(len(driver.queries) for driver in found.statuses)
    typer.echo(f"healthy: queries {queries}, processes {len(found.statuses)}")


def _find(host: str | None = None) -> Found[DriverStatus]:
    """Return the drivers' statuses; raise `UserFacingError` when there are none."""
    home = find_home()
    found = find_statuses(home, PROGRAM, DriverStatus, host=host)
    if found.is_empty:
        raise UserFacingError(
            f"no jobs run: there is no status in {status_folder(home)}; start "
            f"some with python -m spark_jobs run, or set RACKSTREAM_HOME or {FOLDER_VARIABLE} to "
            "theirs."
        )
    return found


def _find_again_and_again() -> Iterator[Found[DriverStatus]]:
    while True:
        yield _find()
        time.sleep(WATCH_INTERVAL_S)


def _to_json(drivers: list[DriverStatus], at_ms: int) -> str:
    rows = [
        {**msgspec.to_builtins(driver), "problems": problems(driver, at_ms)} for driver in drivers
    ]
    return msgspec.json.encode(rows).decode()


def _new_console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def _show(console: "Console", found: Found[DriverStatus]) -> None:
    at_ms = now_ms()
    for number, driver in enumerate(found.statuses):
        if number:
            console.print()
        for part in driver_view(driver, at_ms):
            console.print(part)
    others = find_statuses(find_home(), "*", ProgramStatus)
    alerting = find_statuses(find_home(), alerting_status.PROGRAM, AlertingStatus)
    for other in others.statuses:
        if other.program not in (PROGRAM, alerting_status.PROGRAM):
            console.print(program_line(other, process_problems(other, at_ms), at_ms))
    for each in alerting.statuses:
        console.print(program_line(each, alerting_health.problems(each, at_ms), at_ms))
    for sentence in dict.fromkeys((*found.unreadable, *others.unreadable, *alerting.unreadable)):
        console.print(sentence, style="red", markup=False)


def program_line(status: ProgramStatus, found: Sequence[str], at_ms: int) -> "Text":
    """Return a line about a process of another program: the first problem, or since when it runs.

    The producer's command `health` knows more.
    """
    from rich.text import Text

    for sentence in found:
        return Text(f"! {status.program}: {sentence}", style="bold red")
    started = duration(age_s(status.started_time, at_ms))
    return Text(f"{status.program}: process {status.pid} on {status.host}, started {started} ago")


def driver_view(driver: DriverStatus, at_ms: int) -> "Iterator[RenderableType]":
    """Yield what to print of a driver: two lines, a table of its queries, and what is wrong."""
    from rich.text import Text

    answers = "answers" if driver.broker.reachable else "does not answer"
    started = duration(age_s(driver.started_time, at_ms))
    yield Text(f"process {driver.pid} on {driver.host}, started {started} ago")
    yield Text(f"the broker at {driver.broker.servers} {answers}")
    if driver.queries:
        yield query_table(driver, at_ms)
    for sentence in problems(driver, at_ms):
        yield Text(f"! {sentence}", style="bold red")
    for query in driver.queries:
        if query.last_error:
            failed = duration(age_s(query.last_error_time or query.started_time, at_ms))
            yield Text(f"{query.name} failed {failed} ago: {query.last_error}", style="yellow")


def query_table(driver: DriverStatus, at_ms: int) -> "Table":
    """Return a table with one row per query, at most 80 columns wide."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for title in ("QUERY", "STATE"):
        table.add_column(title, overflow="fold")
    for title in ("LATEST", "LAG", "IN/S", "LATE", "SKIPPED", "RESTARTS"):
        table.add_column(title, justify="right", no_wrap=True)
    ended = has_ended(driver, at_ms)
    for query in driver.queries:
        progress = query.last_progress_time
        table.add_row(
            query.name,
            _state(query, ended=ended),
            duration(age_s(progress, at_ms)) if progress else "-",
            short(query.records_behind),
            short(query.input_rows_per_second),
            short(query.late_records),
            short(query.records_left_out),
            str(query.restarts),
        )
    return table


def _state(query: QueryStatus, *, ended: bool) -> str:
    if query.finished:
        return "finished"
    if ended:
        return "ended"
    return query.trigger if query.active else "restarting"


def short(number: float | None) -> str:
    """Return a number in at most five characters, `-` for one that is unknown."""
    if number is None:
        return "-"
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            count = number / unit
            return f"{count:.0f}{name}" if count >= 99.95 else f"{count:.1f}{name}"
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"
