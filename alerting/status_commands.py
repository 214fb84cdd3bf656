"""Provide `health`, which reads the status files of alerting processes and loads little else."""

import os
import socket
from pathlib import Path

import typer

from alerting.cli.options import Database
from events.alerting_health import problems
from events.alerting_status import PROGRAM, AlertingStatus
from events.cli import UserFacingError
from events.status_file import find_home, find_statuses, require_healthy
from events.times import now_ms

app = typer.Typer()


@app.command()
def health(database: Database = None) -> None:
    """Say whether the `run` with this database works: exit 0, or 1 and one sentence why not.

    Unhealthy: no process of this host has the database, it has ended or hangs, the broker does not
    answer, a topic no longer exists, it does not look for records, or it cannot publish a changed
    incident. How long each of these may last: docs/operations.md, Status and health. A failing
    channel is not unhealthy: it is retried and reported, and a restart would not help.
    """
    path = (database or _configured_database()).resolve()
    found = find_statuses(find_home(), PROGRAM, AlertingStatus, host=socket.gethostname())
    own = [status for status in found.statuses if status.database == str(path)]
    if not own:
        require_healthy(found.unreadable)
        raise UserFacingError(
            f"no alerting process of this host has the database {path}: start "
            "`python -m alerting run`, or check --database and RACKSTREAM_HOME."
        )
    latest = own[-1]
    require_healthy(problems(latest, now_ms()))
    typer.echo(f"healthy: process {latest.pid} has read {latest.alerts} alerts")


def _configured_database() -> Path:
    # Reading .env loads Pydantic, which takes longer than the rest of a health check.
    if configured := os.environ.get("ALERTING_DATABASE"):
        return Path(configured)
    from alerting.cli.operator_cli import database_path

    return database_path(None)
