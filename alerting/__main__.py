"""`python -m alerting`: log each alert once, tell people of them, and let people say what they do about it."""

import io
import logging
import signal
import sqlite3
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from alerting import config, consumer, people
from alerting.delivery import Deliveries, Patience
from alerting.life import Times
from alerting.lines import LogFile, visible
from alerting.notices import title
from alerting.people import Database, database_path, duration
from alerting.store import Store, read_counts
from events import cli, settings, topics
from events.times import now_ms

app = cli.new_app(
    "Read the alerts, log each one once, also after a kill at any moment, and tell people of them. "
    "`run` does that; the others show what fires and say what people do about it."
)


def _duration_option(help_text: str) -> Any:
    """Return an option that takes a duration such as 30s or 4h and hands it on in milliseconds."""
    return typer.Option(parser=duration, metavar="DURATION", help=help_text)


@app.command()
def run(
    database: Database = None,
    idle_exit: Annotated[
        float | None,
        typer.Option(min=0, help="End after so many seconds without a new record, at the end of the topic."),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(
            help="Also append the alerts to this file as JSON lines: each exactly once, whatever happens."
        ),
    ] = None,
    group_wait: Annotated[
        int, _duration_option("From the first news of a site to the notice of it; more news joins it.")
    ] = "30s",  # type: ignore[assignment] # the parser makes milliseconds of it
    group_interval: Annotated[
        int, _duration_option("Least time from one notice of a site to the next.")
    ] = "5m",  # type: ignore[assignment]
    remind_after: Annotated[
        int, _duration_option("How long after a notice people are reminded of what still fires.")
    ] = "4h",  # type: ignore[assignment]
    flap_changes: Annotated[
        int,
        typer.Option(
            min=0, max=1000, help="So many changes in --flap-window are told as one, flapping; 0: none."
        ),
    ] = 6,
    flap_window: Annotated[
        int, _duration_option("See --flap-changes; also how long nothing may change until flapping is over.")
    ] = "15m",  # type: ignore[assignment]
    tries: Annotated[
        int,
        typer.Option(min=1, help="How often a notice is tried before it goes to the file of dead letters."),
    ] = 12,
    retry_first: Annotated[
        int, _duration_option("The pause after a route's first failure; it doubles with each.")
    ] = "1s",  # type: ignore[assignment]
    retry_longest: Annotated[int, _duration_option("The longest pause between two tries.")] = "5m",  # type: ignore[assignment]
) -> None:
    """Log alerts to the standard output: in colours on a terminal, as JSON lines elsewhere.

    A kill at the moment between showing and committing a batch shows it again at the next start; the log file
    and the database have each alert exactly once. Messages and the summary go to the standard error.

    People are told by site, over every route that is set: ALERTING_WEBHOOK_URL (Alertmanager's API),
    ALERTING_PAGERDUTY_KEY, ALERTING_APPRISE_URLS (mail, chat, whatever Apprise knows). A route that is down holds
    up neither the log nor the other routes; what it never took is in a file of dead letters beside the database.
    docs/alerting.md has all of it.
    """
    if not remind_after:
        raise cli.PersonError("reminders without a pause would be without end: check --remind-after.")
    times = Times(group_wait, group_interval, remind_after, flap_changes, flap_window)
    patience = Patience(tries, retry_first / 1000, retry_longest / 1000)
    shared, route_settings = settings.load(), config.load()
    routes = route_settings.routes()
    stop = consumer.Stop()
    signals = _obey_signals(stop)
    path = database_path(database)
    dead_letters = route_settings.alerting_dead_letters or path.with_name(path.name + ".dead-letters.jsonl")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a letter must not end this
    try:
        with (
            Store(path, times) as store,
            closing(LogFile(log_file, store, _tell)) if log_file else nullcontext() as file,
            Deliveries(path, routes, dead_letters, patience, _tell) as deliveries,
        ):
            names = [route.name for route in routes]
            _tell_of_routes(names, store)
            counts = consumer.run(
                shared.kafka_bootstrap_servers,
                {"alerts": shared.topic(topics.ALERTS), "commands": shared.topic(topics.ALERT_COMMANDS)},
                store,
                file,
                idle_exit_s=idle_exit,
                stop=stop,
                tell=_tell,
                each_round=lambda: _tell_people(store, deliveries, names),
            )
            _tell(f"Logged {counts}. Since the database was begun: {store.counts()}.")
    except BrokenPipeError:
        sys.stdout = None  # or Python complains once more when it ends
        raise cli.PersonError(
            "who read the standard output has gone; start again to go on from there."
        ) from None
    except (sqlite3.Error, OSError) as error:
        raise cli.PersonError(
            f"{path}, the log file or {dead_letters} could not be written ({error}): what was logged before is "
            "kept; make room or correct the paths, and start again."
        ) from None
    if signal.SIGINT in signals:
        raise typer.Exit(130)


def _obey_signals(stop: consumer.Stop) -> list[int]:
    """Have SIGINT and SIGTERM ask for the end; return the list into which those that came are put."""
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt  # asked twice: at once, without the summary
        stop.requested = True
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return signals


def _tell_people(store: Store, deliveries: Deliveries, routes: list[str]) -> None:
    """Make the notices that are due, for the threads of the routes to deliver; raise what ended one of those."""
    deliveries.check()
    for notice in store.flush(now_ms(), routes):
        if routes:
            _tell(f"Notice {notice.notice_id[:8]} to {', '.join(routes)}: {visible(title(notice))}")


@app.command("counts")
def counts_command(database: Database = None) -> None:
    """Say how many alerts a database has seen; also while they are being logged."""
    path = database_path(database)
    try:
        typer.echo(str(read_counts(path)))
    except sqlite3.Error as error:
        raise cli.PersonError(
            f"{path} cannot be read as alerting's database ({error}): check --database."
        ) from None


def _tell_of_routes(names: list[str], store: Store) -> None:
    """Say where notices go, and which wait for a route that is no longer set."""
    if names:
        _tell(f"Notices go to {', '.join(names)}.")
    for route, count in store.waiting_elsewhere(names).items():
        _tell(f"{count} notices wait for the route {route}, which is not set: set it again to send them.")


def _tell(message: str) -> None:
    typer.echo(f"alerting: {message}", err=True)


app.add_typer(people.app)


if __name__ == "__main__":
    for name in ("kafka", "apprise"):
        # They tell every failed attempt; we tell the change.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    cli.run(app, "alerting")
