"""Provide the commands that load the streams: `run`, `faults` and `world`."""

import inspect
import signal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from events import cli, settings
from events.constants import LOST_SIGNAL_WATERMARK
from events.inventory import write_inventory
from events.metrics import MetricsPort
from events.times import now_ms, to_ms
from producer.expected.rack_alerts import DEFAULT_RULES, parse_rule_names
from producer.expected.truth import KINDS
from producer.faults import FAULT_TYPES
from producer.ledger import has_run
from producer.run import Outcome, run
from producer.scenario import fault_options, load_scenario
from producer.streams.stream_set import STREAM_PLANS

app = typer.Typer()

SEQUENCES = (-(10**18), 10**18)
"""With the numbers of the readings added, they still fit into 64 bits."""
HISTORY_HOURS = (0.1, 10 * 365 * 24)
LINGERS_MS = (0, 900_000)
WATERMARKS_S = (0, 30 * 86_400)


@app.command("run")
def run_command(
    rate: Annotated[
        str | None,
        typer.Option(help="Events per second over all streams, or max; duplicates not counted."),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="Length of the run in seconds; endless if not given.")
    ] = None,
    count: Annotated[
        int | None, typer.Option(help="Number of events; duplicates not counted.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the world, the events and the faults.")
    ] = None,
    racks: Annotated[int | None, typer.Option(help="Number of racks, 1 to 1,000,000.")] = None,
    start_time: Annotated[
        str | None,
        typer.Option(help="Event time of the first event, such as 2026-11-21T06:26:00.000Z."),
    ] = None,
    time_scale: Annotated[
        float | None,
        typer.Option(help="Event seconds per second; the run starts far enough in the past."),
    ] = None,
    first_sequence: Annotated[
        int | None,
        typer.Option(
            help="First sequence number of each rack; by default the clock in milliseconds."
        ),
    ] = None,
    flush: Annotated[
        bool,
        typer.Option(
            help="Send a final record per topic to close open windows, sessions and joins. "
            "All other event times end at least 80 min (actions) or 4 h 10 min (clicks) before it. "
            "With clicks or actions, jobs drop the events of a later --flush run as late."
        ),
    ] = False,
    scenario: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of options and faults. Command-line options override it, and --fault "
            "adds to its faults."
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE][,OPTION=VALUE...]",
            help="Enable a fault, such as duplicate=0.01 or overheating=2,length_s=5; repeatable. "
            f"Faults: {', '.join(FAULT_TYPES)} (see the faults command).",
        ),
    ] = None,
    inventory: Annotated[
        Path | None, typer.Option(help="Write the inventory here, as JSON lines.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Write the expected output here, as JSON lines.")
    ] = None,
    truth_kinds: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated kinds of lines of the truth; by default all: "
            f"{', '.join(KINDS)}. It takes time for each.",
            show_default=False,
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Append what the broker acknowledges to the ledger in this folder. It holds any "
            "number of runs, and a run of any length.",
            show_default=False,
        ),
    ] = None,
    history_hours: Annotated[
        float | None,
        typer.Option(
            help="First send so many hours of the past in a minute, unless the ledger has a run "
            "of the same streams. Needs --ledger.",
            show_default=False,
        ),
    ] = None,
    alerts_of: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated rules whose alerts the truth has, any but site-outage; "
            f"by default {', '.join(DEFAULT_RULES)}."
        ),
    ] = None,
    rules: Annotated[
        Path | None,
        typer.Option(help="YAML file of the rules that the jobs run with."),
    ] = None,
    lost_signal_watermark: Annotated[
        float, typer.Option(help="The watermark of the job lost_signal, in seconds.")
    ] = LOST_SIGNAL_WATERMARK.total_seconds(),
    streams: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated streams: racks (default), clicks (impressions and clicks), "
            "actions. Ratio of events: 10 readings, 10 impressions, 1 click, 4 actions."
        ),
    ] = None,
    linger_ms: Annotated[
        float | None,
        typer.Option(help="How long a record may wait for its batch, in ms: 0 to 900,000."),
    ] = None,
    metrics_port: MetricsPort = None,
) -> None:
    """Publish events until --count, --duration, Ctrl-C (exit 130) or SIGTERM (exit 0).

    Exit 1 if a delivery failed. The last line of stdout is a JSON object: what was sent,
    acknowledged and failed, and how fast. A history has such a line of its own before it.
    """
    for flag, number, bounds, unit in (
        ("--first-sequence", first_sequence, SEQUENCES, ""),
        ("--history-hours", history_hours, HISTORY_HOURS, "hours"),
        ("--linger-ms", linger_ms, LINGERS_MS, "milliseconds"),
        ("--lost-signal-watermark", lost_signal_watermark, WATERMARKS_S, "seconds"),
    ):
        if number is not None:
            cli.number_within(flag, number, bounds, unit)
    options: dict[str, Any] = {
        "rate": _rate(rate),
        "duration": duration,
        "count": count,
        "seed": seed,
        "racks": racks,
        "time_scale": time_scale,
        "streams": _streams(streams),
    }
    if truth and ledger:
        raise cli.UserFacingError("a run has either --truth or --ledger: leave one of them out.")
    if truth is None and (truth_kinds or alerts_of or rules):
        raise cli.UserFacingError(
            "--truth-kinds, --alerts-of and --rules apply to the truth file: add --truth."
        )
    if history_hours and ledger is None:
        raise cli.UserFacingError("--history-hours needs --ledger: add it.")
    if history_hours and first_sequence is not None:
        raise cli.UserFacingError(
            "a history and the run after it number their readings by the clock: leave out "
            "--first-sequence or --history-hours."
        )
    config = settings.load().with_metrics_port(metrics_port)
    live = load_scenario(scenario, _given(options), fault or [])
    runs = [(live, first_sequence)]
    if history_hours and ledger and not has_run(ledger, live.streams):
        history = live.history(history_hours)
        # A rack's numbers end before those of the live run, which begin with the clock.
        runs.insert(0, (history, now_ms() - history.readings_of_a_rack))
    for one, first in runs:
        outcome = run(
            config,
            one,
            start_event_ms=_start(start_time),
            first_sequence=first,
            linger_ms=linger_ms,
            flush=flush,
            inventory=inventory,
            truth=truth,
            truth_kinds=KINDS
            if truth_kinds is None
            else cli.names_within("--truth-kinds", truth_kinds, KINDS, "kind"),
            ledger=ledger,
            alerts_of=DEFAULT_RULES if alerts_of is None else parse_rule_names(alerts_of),
            rules=rules,
            lost_signal_watermark_s=lost_signal_watermark,
        )
        typer.echo(msgspec.json.encode(outcome.summary))
        _check(outcome)


def _check(outcome: Outcome) -> None:
    """Raise if a delivery failed; end the command if a signal has asked for it."""
    failed = outcome.summary["failed"]
    if failed:
        raise cli.UserFacingError(
            f"{failed:,} of {outcome.summary['sent']:,} records failed: {outcome.last_error}"
        )
    if outcome.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if outcome.signal is not None:
        raise typer.Exit


@app.command("faults")
def faults_command() -> None:
    """List the faults with their options and defaults."""
    table = Table("fault", "what it does", "options and defaults")
    for name, fault in FAULT_TYPES.items():
        defaults = ", ".join(
            f"{key}={'-' if value is None else value}" for key, value in fault_options(name)
        )
        table.add_row(name, inspect.cleandoc(fault.__doc__ or ""), defaults)
    Console().print(table)


@app.command("world")
def world_command(
    inventory: Annotated[Path, typer.Option(help="Write the inventory here, as JSON lines.")],
    rate: Annotated[str | None, typer.Option(help="As in the run: events per second.")] = None,
    seed: Annotated[int | None, typer.Option(help="As in the run.")] = None,
    racks: Annotated[int | None, typer.Option(help="As in the run.")] = None,
    time_scale: Annotated[float | None, typer.Option(help="As in the run.")] = None,
    streams: Annotated[str | None, typer.Option(help="As in the run.")] = None,
    scenario: Annotated[Path | None, typer.Option(help="As in the run.")] = None,
) -> None:
    """Write a run's inventory without sending anything, for jobs that start before the producer.

    Give the same options as to the run: they decide how many readings per second each rack sends.
    """
    options = {
        "rate": _rate(rate),
        "seed": seed,
        "racks": racks,
        "time_scale": time_scale,
        "streams": _streams(streams),
    }
    plan = load_scenario(scenario, _given(options), [])
    write_inventory(inventory, plan.inventory(plan.make_world()))


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the command line has."""
    return {name: value for name, value in options.items() if value is not None}


def _rate(text: str | None) -> float | str | None:
    if text is None or text == "max":
        return text
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise cli.UserFacingError(
            f"--rate must be a number of events per second or max, not {text!r}."
        ) from None


def _streams(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else cli.names_within("--streams", text, STREAM_PLANS, "stream")


def _start(text: str | None) -> int | None:
    try:
        return None if text is None else to_ms(text)
    except ValueError as error:
        raise cli.UserFacingError(f"--start-time: {error}.") from None
