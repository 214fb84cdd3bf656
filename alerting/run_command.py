"""Provide `run`, which logs alerts, notifies people and publishes incidents, and `counts`."""

import io
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from alerting import config, consumer
from alerting.alert_log import LogFile, printable
from alerting.cli.operator_cli import database_path
from alerting.cli.options import Database
from alerting.incidents.publisher import IncidentPublisher
from alerting.incidents.state import NotificationTiming
from alerting.metrics import AlertingMetrics
from alerting.notifications.delivery import DeliveryThreads, RetryPolicy
from alerting.notifications.notice import title
from alerting.status import StatusRecorder
from alerting.store import Store, read_counts
from events import cli, settings, topics
from events.alerting_status import PROGRAM
from events.durations import duration_option
from events.metrics import MetricsPort, serve_metrics
from events.status_file import StatusWriter, own_file
from events.times import now_ms

app = typer.Typer()


def _duration_option(help_text: str) -> Any:
    """Return an option for a duration such as 30s or 4h, whose value is in milliseconds."""
    return typer.Option(parser=duration_option, metavar="DURATION", help=help_text)


@app.command()
def run(
    database: Database = None,
    idle_exit: Annotated[
        float | None,
        typer.Option(
            min=0, help="Exit at the end of the topic, after this many seconds without a record."
        ),
    ] = None,
    log_file: Annotated[
        Path | None,
        typer.Option(help="Also append each alert, exactly once, to this file as a JSON line."),
    ] = None,
    group_wait: Annotated[
        int,
        _duration_option("How long a site's first notice waits for more alerts to join it."),
    ] = "30s",  # type: ignore[assignment] # the parser turns it into milliseconds
    group_interval: Annotated[
        int, _duration_option("The minimum time between two notices of a site.")
    ] = "5m",  # type: ignore[assignment]
    remind_after: Annotated[
        int, _duration_option("How long after a notice people are reminded of open incidents.")
    ] = "4h",  # type: ignore[assignment]
    flap_changes: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="An incident with this many changes within --flap-window is flapping; 0: none is.",
        ),
    ] = 6,
    flap_window: Annotated[
        int,
        _duration_option("See --flap-changes; flapping ends after this time without a change."),
    ] = "15m",  # type: ignore[assignment]
    max_attempts: Annotated[
        int,
        typer.Option(
            min=1,
            help="How often a notice is tried before it goes to the dead-letter file. One that the "
            "receiver rejects (400, 413, 422) goes there at once.",
        ),
    ] = 12,
    retry_initial: Annotated[
        int, _duration_option("The delay after a channel's first failure; it doubles with each.")
    ] = "1s",  # type: ignore[assignment]
    retry_max: Annotated[int, _duration_option("The maximum delay between two attempts.")] = "5m",  # type: ignore[assignment]
    metrics_port: MetricsPort = None,
) -> None:
    """Log alerts to the standard output: coloured lines on a terminal, JSON lines elsewhere.

    The log file and the database have each alert exactly once. The standard output may repeat a
    batch that was printed but not committed before a crash. Messages go to stderr.

    Notices are grouped by site and go to every channel that is set: ALERTING_WEBHOOK_URL
    (Alertmanager's API), ALERTING_PAGERDUTY_KEY, ALERTING_APPRISE_URLS (mail, chat, any service of
    Apprise). A failing channel delays neither the log nor the other channels. Notices that it never
    accepts go to a dead-letter file beside the database. See docs/alerting.md.
    """
    if not remind_after:
        raise cli.UserFacingError("--remind-after must be greater than 0.")
    timing = NotificationTiming(group_wait, group_interval, remind_after, flap_changes, flap_window)
    retry_policy = RetryPolicy(max_attempts, retry_initial / 1000, retry_max / 1000)
    shared = settings.load().with_metrics_port(metrics_port)
    alerting_settings = config.load()
    channels = alerting_settings.channels()
    names = [channel.name for channel in channels]
    stop = consumer.StopRequest()
    incidents_topic = shared.topic(topics.INCIDENTS)
    signals = _install_signal_handlers(stop)
    path = database_path(database)
    dead_letters = alerting_settings.alerting_dead_letters or path.with_name(
        path.name + ".dead-letters.jsonl"
    )
    _refuse_shared_files(path, log_file, dead_letters)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Replace characters that the terminal's encoding lacks instead of failing.
        sys.stdout.reconfigure(errors="replace")
    recorder = StatusRecorder(shared.kafka_bootstrap_servers, shared.topic_prefix, path)
    status_file = own_file(shared.rackstream_home, PROGRAM)
    metrics = AlertingMetrics(recorder.snapshot, path, names)
    with (
        Store(path, timing) as store,
        serve_metrics(shared.metrics_port, metrics.collectors),
        StatusWriter(status_file, recorder.snapshot, _report),
        _errors_as_sentences(path, dead_letters),
        closing(LogFile(log_file, store, _report)) if log_file else nullcontext() as file,
        DeliveryThreads(
            path, channels, dead_letters, retry_policy, _report, metrics.on_attempt
        ) as deliveries,
        IncidentPublisher(
            path, shared.kafka_bootstrap_servers, incidents_topic, _report, recorder.published
        ) as publisher,
    ):
        recorder.remove_superseded(shared.rackstream_home)
        _report_channels(names, store)

        def on_cycle() -> None:
            _create_due_notices(store, deliveries, names)
            publisher.wake()

        counts = consumer.run(
            shared.kafka_bootstrap_servers,
            {
                "alerts": shared.topic(topics.ALERTS),
                "commands": shared.topic(topics.ALERT_COMMANDS),
            },
            store,
            file,
            written_topic=incidents_topic,
            idle_exit_s=idle_exit,
            stop=stop,
            report=_report,
            on_cycle=on_cycle,
            on_alert=metrics.on_alert,
            on_recreated=publisher.republish,
            status=recorder,
        )
        _report(f"Logged {counts}. Since the database was created: {store.counts()}.")
    if signal.SIGINT in signals:
        raise typer.Exit(130)


def _refuse_shared_files(database: Path, log_file: Path | None, dead_letters: Path) -> None:
    """Raise `UserFacingError` if lines would be appended to the database or to each other's file.

    SQLite keeps two more files beside the database, which such lines would damage as well.
    """
    resolved = database.resolve()
    files = [
        ("--database", {resolved.with_name(resolved.name + end) for end in ("", "-wal", "-shm")}),
        ("ALERTING_DEAD_LETTERS", {dead_letters.resolve()}),
        ("--log-file", {log_file.resolve()} if log_file else set()),
    ]
    for (other, other_paths), (name, paths) in combinations(files, 2):
        if shared := paths & other_paths:
            raise cli.UserFacingError(
                f"{name} and {other} name the same file {shared.pop()}: choose another for {name}."
            )


@contextmanager
def _errors_as_sentences(database: Path, dead_letters: Path) -> Iterator[None]:
    """Raise what goes wrong with the outputs as `UserFacingError`."""
    try:
        yield
    except BrokenPipeError:
        sys.stdout = None  # otherwise Python reports the broken pipe again when it exits
        raise cli.UserFacingError(
            "the reader of the standard output has gone: start again to continue from there."
        ) from None
    except (sqlite3.Error, OSError) as error:
        raise cli.UserFacingError(
            f"{database}, the log file or {dead_letters} could not be written ({error}): free "
            "space or correct the paths, and start again; what was logged is kept."
        ) from None


def _install_signal_handlers(stop: consumer.StopRequest) -> list[int]:
    """Make SIGINT and SIGTERM request a stop; return a list that collects received signals."""
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.requested:
            raise KeyboardInterrupt  # the second signal ends the process at once
        stop.requested = True
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    return signals


def _create_due_notices(store: Store, deliveries: DeliveryThreads, channels: list[str]) -> None:
    """Create the due notices for the delivery threads; raise an error that ended one of those."""
    deliveries.check()
    for notice in store.create_due_notices(now_ms(), channels):
        if channels:
            _report(f"Notice {notice.notice_id[:8]} to {', '.join(channels)}: {title(notice)}")


@app.command("counts")
def counts_command(database: Database = None) -> None:
    """Print how many alerts, repeats and malformed records the database has counted."""
    path = database_path(database)
    try:
        typer.echo(str(read_counts(path)))
    except sqlite3.Error as error:
        raise cli.UserFacingError(
            f"the database {path} cannot be read ({error}): check --database."
        ) from None


def _report_channels(channels: list[str], store: Store) -> None:
    """Report which channels are set, and which are not but have waiting notices."""
    if channels:
        _report(f"Notices go to {', '.join(channels)}.")
    for channel, count in store.waiting_for_unset_channels(channels).items():
        _report(
            f"{count} notices wait for the channel {channel}, which is not set: set it to send "
            "them."
        )


def _report(message: str) -> None:
    # Ids and malformed values of records may hold control characters.
    typer.echo(f"alerting: {printable(message)}", err=True)
