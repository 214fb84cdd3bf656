"""The commands with which people look at alerts and say what they do about them."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from alerting import commands, texts, views
from alerting.book import acks_of
from alerting.durations import to_duration_ms, to_duration_text
from alerting.life import acknowledged
from events import settings
from events.cli import PersonError
from events.records import MAX_ID_BYTES, AlertCommand, Rule
from events.times import now_ms

app = typer.Typer()

Database = Annotated[
    Path | None,
    typer.Option(
        help="What was logged and read so far; by default alerting.sqlite3 in RACKSTREAM_HOME.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON lines, with all fields, for a program.")]
By = Annotated[
    str | None, typer.Option(help="Who does it; by default who is logged in here.", show_default=False)
]
OneRule = Annotated[Rule, typer.Option(help="The rule.", show_default=False)]
OneSubject = Annotated[
    str, typer.Option(help="A rack, or a site for everything there under that rule.", show_default=False)
]


def duration(text: str) -> int:
    """Return milliseconds for an option's text; the command line says what is wrong with it."""
    try:
        return to_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


@app.command("list")
def list_command(database: Database = None, as_json: AsJson = False) -> None:
    """Show what is not resolved, the newest first, and the silences.

    This reads the database of `alerting run` on this machine, not Kafka: a command that was just given appears
    when that process has read it, usually within a second. Exit status 0, also when nothing fires.
    """
    now = now_ms()
    with views.reading(database_path(database)) as db:
        found = views.incidents(db, now, only_open=True)
        silences = views.silences(db, now)
    if as_json:
        _print_json(found)
        return
    console = texts.console()
    if found:
        console.print(texts.incident_table(found, now))
    else:
        typer.echo("Nothing fires.")
    if silences:
        typer.echo()
        console.print(texts.silence_table(silences, now))


@app.command()
def history(
    database: Database = None,
    rule: Annotated[Rule | None, typer.Option(help="Only of this rule.", show_default=False)] = None,
    subject: Annotated[
        str | None, typer.Option(help="Only of this rack or site.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show what fired, the newest first: resolved or not, with start, length and repeats removed."""
    now = now_ms()
    with views.reading(database_path(database)) as db:
        found = views.incidents(db, now, rule=rule, subject=subject, limit=limit)
    if as_json:
        _print_json(found)
    elif found:
        texts.console().print(texts.incident_table(found, now))
    else:
        typer.echo("Nothing of that kind has fired.")


@app.command()
def show(
    alert_id: Annotated[str, typer.Argument(metavar="ID", help="As list shows it, or the beginning of it.")],
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show all that is known of one alert: its state, the readings that decided it, who was told when."""
    now = now_ms()
    with views.reading(database_path(database)) as db:
        story = views.story(db, alert_id, now)
    if as_json:
        typer.echo(msgspec.json.encode(story).decode())
        return
    console = texts.console()
    for line in texts.story_lines(story, now):
        console.print(line)


@app.command()
def ack(
    alert_ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="As list shows them, or their beginnings.")
    ],
    database: Database = None,
    by: By = None,
) -> None:
    """Acknowledge alerts: somebody has them in hand, so there are no reminders until they are resolved.

    Holds for the severity that list shows now and for lower ones; should it rise, people are told again. What to
    acknowledge is looked up in the database; the command goes to the Kafka topic alert-commands, so that every
    alerting process hears of it.
    """
    now = now_ms()
    with views.reading(database_path(database)) as db:
        new = {}
        for each in alert_ids:
            incident = views.find(db, each, now)
            life = views.life_now(db, incident)
            if life is None or not life.firing:
                raise PersonError(
                    f"{incident.rule} of {incident.subject} ended at {incident.end_time}: "
                    "only what fires can be acknowledged."
                )
            known = acknowledged(life, acks_of(db, life.rule, life.subject))
            if known is not None:
                typer.echo(f"{life.rule} of {life.subject} is already acknowledged by {known.by}.")
                continue
            new[life.alert_id] = commands.new_command(
                "ack", life.rule, life.subject, by, alert_id=life.alert_id, severity=life.severity
            )
    if new:
        commands.send(settings.load(), list(new.values()))
    for command in new.values():
        typer.echo(f"Acknowledged {command.rule} of {command.subject} by {command.by}.")


@app.command()
def silence(
    rule: OneRule,
    subject: OneSubject,
    for_ms: Annotated[
        int,
        typer.Option(
            "--for",
            parser=duration,
            metavar="DURATION",
            help="How long, such as 30m, 2h or 1d.",
            show_default=False,
        ),
    ],
    by: By = None,
) -> None:
    """Tell nobody of a rule and a subject for a while; the alerts are logged and counted as ever.

    What fires then and still does when the silence ends is told then. The end of what people were told before is
    told at once. A second silence replaces the first. The command goes to the Kafka topic alert-commands; no
    database is needed here.
    """
    if not for_ms:
        raise PersonError("a silence of no length does nothing: use unsilence to end one.")
    command = commands.new_command("silence", rule, subject, by, until_ms=now_ms() + for_ms)
    _send_one(command)
    typer.echo(f"Silenced {rule} of {subject} for {to_duration_text(for_ms)}, until {command.until}.")


@app.command()
def unsilence(rule: OneRule, subject: OneSubject, by: By = None) -> None:
    """End a silence now. It is named as it was made: one of a site is not ended for one of its racks."""
    _send_one(commands.new_command("unsilence", rule, subject, by))
    typer.echo(f"{rule} of {subject} is no longer silenced.")


def _send_one(command: AlertCommand) -> None:
    if len(command.subject.encode()) > MAX_ID_BYTES:
        raise PersonError(f"a subject has at most {MAX_ID_BYTES} bytes: check --subject.")
    commands.send(settings.load(), [command])


def database_path(given: Path | None) -> Path:
    """Return the database that was named, or the one that is used when none is."""
    return given or settings.load().rackstream_home / "alerting.sqlite3"


def _print_json(found: list[views.Incident]) -> None:
    for each in found:
        typer.echo(msgspec.json.encode(each).decode())
