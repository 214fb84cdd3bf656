"""Provide the command `health`, which reads the producer's status file."""

import socket

import typer

from events.cli import UserFacingError
from events.status_file import (
    find_home,
    find_statuses,
    problems_found,
    require_healthy,
    status_folder,
)
from events.times import now_ms
from producer.status import PROGRAM, ProducerStatus, problems

app = typer.Typer()


@app.command()
def health() -> None:
    """Say whether the producers of this host keep their schedule: exit 0, or 1 and why not.

    Unhealthy: a producer has failed, hangs or was killed, the broker acknowledges nothing although
    records wait or fail, or the run is behind its schedule. How long each of these may last:
    docs/operations.md, Status and health.
    """
    home, at_ms = find_home(), now_ms()
    found = find_statuses(home, PROGRAM, ProducerStatus, host=socket.gethostname())
    if found.is_empty:
        raise UserFacingError(
            f"no producer runs: there is no status of one in {status_folder(home)}; "
            "start one with python -m producer run, or set RACKSTREAM_HOME to its folder."
        )
    require_healthy(problems_found(found, problems, at_ms))
    for one in found.statuses:
        behind = one.behind_schedule_s
        schedule = "no schedule" if behind is None else f"{behind:.1f} s behind schedule"
        typer.echo(f"healthy: {one.sent:,} records sent, {one.failed:,} failed, {schedule}")
