"""Provide the command `verdict`: judge a pipeline that runs elsewhere, such as in containers."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from kafka.errors import KafkaError
from rich.console import Console

from alerting.cli.queries import open_database
from demo import report
from demo.archived import ArchiveCheck
from demo.comparison import Comparison
from demo.ledger_truth import read_ledger_truth
from demo.outputs import Outputs
from demo.verdict import Actual, Truth, Verdict, compare_outputs
from events import settings
from events.cli import UserFacingError
from events.constants import LOST_SIGNAL_WATERMARK
from events.driver_starts import read_starts
from events.inventory import read_inventory
from events.rules import Rules, read_rules
from events.times import duration_ms

QUIET_S = 2.0
"""The outputs are compared when nothing has come for so long."""
POLL_S = 0.2
PAUSE_FACTOR = 4
"""After a comparison the next one waits so many times as long as it took."""
LAST_READS = 3
"""How often the outputs are read at the end before a difference counts."""
ARCHIVE_POLL_S = 1.0
"""An archive is read so often: it lists all its files each time."""
PROGRESS_S = 10.0
"""How often it is said what is not right yet."""

app = typer.Typer()


class Progress:
    """Says from time to time what is not right yet."""

    def __init__(self) -> None:
        self._next_at = time.monotonic() + PROGRESS_S

    def report(self, comparisons: Mapping[str, Comparison]) -> None:
        """Take the latest comparisons by name."""
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + PROGRESS_S
        counts = {name: len(each.missing) + len(each.wrong) for name, each in comparisons.items()}
        rows = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        typer.echo(f"verdict: missing or wrong until now: {rows} ...", err=True)


@app.command("verdict")
def verdict_command(
    ledger: Annotated[Path, typer.Option(help="The folder of the producers' --ledger.")],
    inventory: Annotated[Path, typer.Option(help="The racks' inventory, as JSON lines.")],
    database: Annotated[Path, typer.Option(help="The database of alerting.")],
    rules: Annotated[
        Path | None,
        typer.Option(help="YAML file of the rules that the jobs run with.", show_default=False),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="The folder that the job archive writes to.", show_default=False),
    ] = None,
    clickstream: Annotated[
        bool,
        typer.Option(
            "--clickstream/--no-clickstream",
            help="Whether the verdict fails if no clickstream was sent, but only racks.",
        ),
    ] = True,
    closed_windows: Annotated[
        bool,
        typer.Option(
            "--closed-windows/--no-closed-windows",
            help="Whether rack_temperature also runs in append mode, whose records are compared "
            "once a window is closed.",
        ),
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds without a new output after which it ends.")
    ] = 60.0,
) -> None:
    """Compare all outputs of a pipeline with what its producers have sent.

    End the producers first, and leave the jobs and alerting running: the command waits for the
    outputs that are still missing. It judges all runs of the ledger together. Options that change
    what a job outputs, such as --join or --watermark, must have their defaults; --rules and
    --closed-windows name the exceptions.

    Exit status: 0 if nothing is missing or wrong, and the run was long enough to prove it: every
    rule had alerts of both states, every other row expects something (closed windows may all be not
    due yet), and the producers have caused at least 20 alerts and sent 100 duplicates. Otherwise 1.
    """
    config = settings.load()
    with open_database(database):
        pass  # an unsuitable one is reported before the ledger is read, which may take minutes
    racks = read_inventory(inventory)
    typer.echo("verdict: reading the ledger and the input topics ...", err=True)
    truth = read_ledger_truth(
        config,
        ledger,
        racks,
        read_rules(rules, racks) if rules else Rules(),
        lost_signal_watermark_ms=duration_ms(LOST_SIGNAL_WATERMARK),
        clickstream_required=clickstream,
        closed_windows=closed_windows,
    )
    typer.echo("verdict: comparing the outputs ...", err=True)
    try:
        with closing(Outputs(config, database)) as outputs:
            _wait_for(outputs, truth, wait)
            archived = (
                _wait_for_archive(ArchiveCheck(config, archive, truth), wait) if archive else None
            )
            actual, verdict = _compare_all(config, outputs, truth, archived)
    except KafkaError as error:
        raise UserFacingError(
            f"the broker at {config.kafka_bootstrap_servers} does not answer any longer ({error}): "
            "see whether it runs."
        ) from None
    report.show(Console(highlight=False, soft_wrap=True), truth, actual, verdict, None)
    raise typer.Exit(0 if verdict.proves_all else 1)


def _compare_all(
    config: settings.Settings, outputs: Outputs, truth: Truth, archived: Comparison | None
) -> tuple[Actual, Verdict]:
    """Return what all outputs are by now, and the comparison.

    While the archive is waited for, all racks fall silent, which brings more alerts: the outputs
    are read again where one of them was read before what follows from another.
    """
    for _ in range(LAST_READS):
        _wait_for(outputs, truth, QUIET_S)
        starts = read_starts(config.rackstream_home, config.topic_prefix)
        actual = replace(outputs.actual(up_to_date=True), starts=starts)
        verdict = compare_outputs(truth, actual, archived=archived)
        if verdict.passed:
            break
    return actual, verdict


def _wait_for_archive(check: ArchiveCheck, wait_s: float) -> Comparison:
    """Return the comparison when all is archived, or when nothing has been for so long.

    Raises `UserFacingError` when after that time a file that the archive lists is not there.
    """
    compared, changed_at, progress = None, time.monotonic(), Progress()
    while True:
        began = time.monotonic()
        try:
            latest = check.compare()
        except FileNotFoundError as error:
            # A compaction may have merged and removed the file since it was listed.
            if time.monotonic() - changed_at >= wait_s:
                raise UserFacingError(f"the archive lacks a file that it lists: {error}.") from None
        else:
            if compared is None or latest.actual != compared.actual:
                changed_at = time.monotonic()
            compared = latest
            if compared.passed or time.monotonic() - changed_at >= wait_s:
                return compared
            progress.report({"archived records": compared})
        pause_s = min(PAUSE_FACTOR * (time.monotonic() - began), wait_s / 4)  # look again in time
        time.sleep(max(ARCHIVE_POLL_S, pause_s))


def _wait_for(outputs: Outputs, truth: Truth, wait_s: float) -> None:
    """Return when all outputs are there, or when nothing has come for so long."""
    began = next_comparison_at = time.monotonic()
    progress = Progress()
    while True:
        outputs.poll(POLL_S)
        now = time.monotonic()
        quiet_s = now - max(began, outputs.latest_record_at)
        if quiet_s >= QUIET_S and now >= next_comparison_at:
            verdict = compare_outputs(truth, outputs.actual())
            if verdict.passed:
                return
            progress.report(verdict.by_name)
            # That of many hours takes seconds, and the jobs need the processor for what is missing.
            next_comparison_at = now + PAUSE_FACTOR * (time.monotonic() - now)
        if quiet_s >= max(wait_s, QUIET_S):
            return
