"""`python -m alerting run|counts`: log each alert once, and say how many there were."""

import io
import logging
import signal
import sqlite3
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from alerting import consumer
from alerting.lines import LogFile
from alerting.store import Store, read_counts
from events import cli, settings, topics

app = cli.new_app("Read the alerts and log each one once, also after a kill at any moment.")

Database = Annotated[
    Path | None,
    typer.Option(
        help="What was logged and read so far; by default alerting.sqlite3 in RACKSTREAM_HOME.",
        show_default=False,
    ),
]


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
) -> None:
    """Log alerts to the standard output: in colours on a terminal, as JSON lines elsewhere.

    A kill at the moment between showing and committing a batch shows it again at the next start; the log file
    and the database have each alert exactly once. Messages and the summary go to the standard error.
    """
    config = settings.load()
    stop = consumer.Stop()
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt  # asked twice: at once, without the summary
        stop.requested = True
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    path = _database(database, config)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a letter must not end this
    try:
        with (
            Store(path) as store,
            closing(LogFile(log_file, store, _tell)) if log_file else nullcontext() as file,
        ):
            counts = consumer.run(
                config.kafka_bootstrap_servers,
                config.topic(topics.ALERTS),
                store,
                file,
                idle_exit_s=idle_exit,
                stop=stop,
                tell=_tell,
            )
            _tell(f"Logged {counts}. Since the database was begun: {store.counts()}.")
    except BrokenPipeError:
        sys.stdout = None  # or Python complains once more when it ends
        raise cli.PersonError(
            "who read the standard output has gone; start again to go on from there."
        ) from None
    except (sqlite3.Error, OSError) as error:
        raise cli.PersonError(
            f"{path} or the log file could not be written ({error}): what was logged before is kept; "
            "make room or correct the paths, and start again."
        ) from None
    if signal.SIGINT in signals:
        raise typer.Exit(130)


@app.command("counts")
def counts_command(database: Database = None) -> None:
    """Say how many alerts a database has seen; also while they are being logged."""
    path = _database(database, settings.load())
    try:
        typer.echo(str(read_counts(path)))
    except sqlite3.Error as error:
        raise cli.PersonError(
            f"{path} cannot be read as alerting's database ({error}): check --database."
        ) from None


def _database(given: Path | None, config: settings.Settings) -> Path:
    return given or config.rackstream_home / "alerting.sqlite3"


def _tell(message: str) -> None:
    typer.echo(f"alerting: {message}", err=True)


if __name__ == "__main__":
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # it tells every failed attempt; we tell the change
    cli.run(app, "alerting")
