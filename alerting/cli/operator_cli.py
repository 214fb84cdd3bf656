"""Provide the commands with which operators look at incidents and act on them."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live

from alerting import config
from alerting.alert_log import printable
from alerting.cli import commands, queries, rendering
from alerting.cli.options import Database
from alerting.incidents.repository import acks_of
from alerting.incidents.state import covering_ack
from events import settings
from events.catalog import RuleName
from events.cli import UserFacingError
from events.durations import duration_option, to_duration_text
from events.ids import is_too_long
from events.records import MAX_ID_BYTES, AlertCommand, Incident
from events.times import now_ms

WATCH_SECONDS = 1.0

app = typer.Typer()

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines with all fields.")]
By = Annotated[
    str | None,
    typer.Option(help="Who gives the command; default: the logged-in user.", show_default=False),
]
OneRule = Annotated[RuleName, typer.Option(help="The rule.", show_default=False)]
OneSubject = Annotated[
    str,
    typer.Option(help="A rack, or a site for all of its racks.", show_default=False),
]


@app.command("list")
def list_command(
    database: Database = None,
    as_json: AsJson = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every second, until Ctrl-C.")
    ] = False,
) -> None:
    """Show open incidents, the newest first, and active silences.

    The data is read from the database of `alerting run` on this machine. An acknowledgement or a
    silence shows once that process has read it from Kafka, usually within a second. `--json` has
    the incidents without the silences. The exit status is 0, with or without open incidents.
    """
    path = database_path(database)
    console = rendering.console()
    if watch:
        if as_json or not console.is_terminal:
            raise UserFacingError(
                "--watch needs a terminal and shows no JSON: programs can read the topic incidents."
            )
        _watch(path, console)
        return
    incidents, silences, now = _read_open(path)
    if as_json:
        _print_json(incidents)
        return
    if incidents:
        console.print(rendering.incident_table(incidents, now, console.width))
    else:
        typer.echo("No open incidents.")
    if silences:
        typer.echo()
        console.print(rendering.silence_table(silences, now))


def _read_open(path: Path) -> tuple[list[Incident], list[queries.Silence], int]:
    """Return the open incidents, the active silences, and the time."""
    now = now_ms()
    with queries.open_database(path) as db:
        return queries.list_incidents(db, now, only_open=True), queries.list_silences(db, now), now


def _watch(path: Path, console: Console) -> None:
    """Show open incidents and silences until Ctrl-C."""
    shown = rendering.overview(*_read_open(path), console.size)
    with (
        suppress(KeyboardInterrupt),
        Live(shown, console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            time.sleep(WATCH_SECONDS)
            live.update(rendering.overview(*_read_open(path), console.size), refresh=True)


@app.command()
def history(
    database: Database = None,
    rule: Annotated[
        RuleName | None, typer.Option(help="Only incidents of this rule.", show_default=False)
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only incidents of this rack or site.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number of incidents.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show open and resolved incidents, the newest first."""
    now = now_ms()
    with queries.open_database(database_path(database)) as db:
        incidents = queries.list_incidents(db, now, rule=rule, subject=subject, limit=limit)
    if as_json:
        _print_json(incidents)
    elif incidents:
        console = rendering.console()
        console.print(rendering.incident_table(incidents, now, console.width))
    else:
        typer.echo("No such incidents.")


@app.command()
def show(
    alert_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="The ID of one of its alerts, or the first digits."),
    ],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show one incident with its alerts, their evidence and its notices."""
    now = now_ms()
    with queries.open_database(database_path(database)) as db:
        details = queries.incident_details(db, alert_id, now)
    if as_json:
        typer.echo(msgspec.json.encode(details).decode())
        return
    console = rendering.console()
    for line in rendering.details_lines(details, now):
        console.print(line)


@app.command()
def ack(
    alert_ids: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="IDs of their alerts, or the first digits."),
    ],
    database: Database = None,
    by: By = None,
) -> None:
    """Acknowledge incidents: stop their notices until they are resolved or their severity rises.

    An acknowledgement covers the severity that list shows now and lower ones. The incident is
    looked up in the database. The command goes to the Kafka topic alert-commands, which every
    alerting process reads.
    """
    now = now_ms()
    with queries.open_database(database_path(database)) as db:
        acks = {}
        for id_prefix in alert_ids:
            incident = queries.find_incident(db, id_prefix, now)
            state = queries.current_state(db, incident)
            if state is None or not state.firing:
                raise UserFacingError(
                    f"{incident.rule} of {printable(incident.subject)} was resolved at "
                    f"{incident.end_time}: only open incidents can be acknowledged."
                )
            earlier = covering_ack(state, acks_of(db, state.rule, state.subject))
            if earlier is not None:
                _echo(f"{state.rule} of {state.subject} is already acknowledged by {earlier.by}.")
                continue
            acks[state.alert_id] = commands.new_command(
                "ack",
                state.rule,
                state.subject,
                by,
                alert_id=state.alert_id,
                severity=state.severity,
            )
    if acks:
        commands.publish(settings.load(), list(acks.values()))
    for command in acks.values():
        _echo(f"Acknowledged {command.rule} of {command.subject} by {command.by}.")


@app.command()
def silence(
    rule: OneRule,
    subject: OneSubject,
    for_ms: Annotated[
        int,
        typer.Option(
            "--for",
            parser=duration_option,
            metavar="DURATION",
            help="How long, such as 30m, 2h or 1d.",
            show_default=False,
        ),
    ],
    by: By = None,
) -> None:
    """Suppress the notices of a rule and a subject for a while.

    Alerts are still logged and counted. When the silence ends, people are notified about the open
    incidents that they have not been notified of, or that became more severe; of the others they
    are reminded. If they were notified of an incident before, they are still notified when it is
    resolved. A second silence replaces the first. The command goes to the Kafka topic
    alert-commands and needs no database.
    """
    if not for_ms:
        raise UserFacingError("--for must be greater than 0: use unsilence to end a silence.")
    command = commands.new_command("silence", rule, subject, by, until_ms=now_ms() + for_ms)
    _publish_one(command)
    _echo(f"Silenced {rule} of {subject} for {to_duration_text(for_ms)}, until {command.until}.")


@app.command()
def unsilence(rule: OneRule, subject: OneSubject, by: By = None) -> None:
    """End a silence now; a site's silence ends only for the whole site."""
    _publish_one(commands.new_command("unsilence", rule, subject, by))
    _echo(f"{rule} of {subject} is no longer silenced.")


def _echo(text: str) -> None:
    typer.echo(printable(text))  # subjects and names of records may hold control characters


def _publish_one(command: AlertCommand) -> None:
    if is_too_long(command.subject):
        raise UserFacingError(f"a subject has at most {MAX_ID_BYTES} bytes: check --subject.")
    commands.publish(settings.load(), [command])


def database_path(given: Path | None) -> Path:
    """Return the database that the option names, or else the setting, or else the default."""
    configured = given or config.load().alerting_database
    return configured or settings.load().rackstream_home / "alerting.sqlite3"


def _print_json(incidents: list[Incident]) -> None:
    for each in incidents:
        typer.echo(msgspec.json.encode(each).decode())
