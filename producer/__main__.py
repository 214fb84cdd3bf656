"""`python -m producer run|faults|world`: events from a world that Faker made, faults, and their truth."""

import inspect
import signal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from events import cli, settings
from events.inventory import write_inventory
from events.times import to_ms
from producer.faults import BY_NAME
from producer.run import run
from producer.scenario import fault_options, load_scenario
from producer.streams import TOPICS
from producer.truth_alerts import OF_READINGS, USUAL, names_of
from producer.world import make_world

app = cli.new_app(
    "Draws rack readings, ad impressions, clicks and user actions from a world that Faker made, and publishes "
    "them with faults as wanted."
)


@app.command("run")
def run_command(
    rate: Annotated[
        str | None, typer.Option(help="Events a second, all streams together, or max. Copies come on top.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="Seconds until the end; without end if not given.")
    ] = None,
    count: Annotated[int | None, typer.Option(help="Events until the end; copies come on top.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed draws the same world, events and faults.")
    ] = None,
    racks: Annotated[int | None, typer.Option(help="Racks in the world, 1 to 1,000,000.")] = None,
    start_time: Annotated[
        str | None, typer.Option(help="Event time of the first event, such as 2026-11-21T06:26:00.000Z.")
    ] = None,
    time_scale: Annotated[
        float | None, typer.Option(help="Event seconds per second; the start lies as far back as that needs.")
    ] = None,
    first_sequence: Annotated[
        int | None,
        typer.Option(
            help="First number of each rack; by default the clock in milliseconds, as after a restart."
        ),
    ] = None,
    flush: Annotated[
        bool,
        typer.Option(
            help="End with one record per topic that moves watermarks to now; clicks then end 4 h 10 min before, "
            "actions 80 min, so that all is closed."
        ),
    ] = False,
    scenario: Annotated[
        Path | None, typer.Option(help="YAML file of options and faults; options here go first.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=VALUE][,OPTION=VALUE...]",
            help="Switch a fault on, such as duplicate=0.01 or overheating=2,length_s=5; repeatable. "
            f"There are {', '.join(BY_NAME)}: the faults command explains them.",
        ),
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="Write the racks and their thresholds here.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Write what must come out here, as JSON lines.")] = None,
    alerts_of: Annotated[
        str | None,
        typer.Option(
            help=f"Rules whose alerts the truth has, of {', '.join(OF_READINGS)}, with commas; by default "
            f"{', '.join(USUAL)}."
        ),
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(help="YAML file of the rules that the jobs have, for these alerts.")
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            help="Streams to publish, of racks (the default), clicks (impressions and clicks) and actions, with "
            "commas. They share the rate 10 : 10 + 1 : 4."
        ),
    ] = None,
    linger_ms: Annotated[
        float | None, typer.Option(min=0, max=900_000, help="How long a record waits for its batch, in ms.")
    ] = None,
) -> None:
    """Publish events until --count, --duration, Ctrl-C (exit 130) or SIGTERM (exit 0).

    Exit 1 if a delivery failed. The last line of standard output is a JSON object: what was sent,
    acknowledged and failed, and how fast.
    """
    options: dict[str, Any] = {
        "rate": _rate(rate),
        "duration": duration,
        "count": count,
        "seed": seed,
        "racks": racks,
        "time_scale": time_scale,
        "streams": _streams(streams),
    }
    given = {key: value for key, value in options.items() if value is not None}
    if truth is None and (alerts_of or rules):
        raise cli.PersonError("--alerts-of and --rules say what the truth has: give --truth, too.")
    outcome = run(
        settings.load(),
        load_scenario(scenario, given, fault or []),
        start_event_ms=_start(start_time),
        first_sequence=first_sequence,
        linger_ms=linger_ms,
        flush=flush,
        inventory=inventory,
        truth=truth,
        alerts_of=USUAL if alerts_of is None else names_of(alerts_of),
        rules=rules,
    )
    typer.echo(msgspec.json.encode(outcome.summary))
    failed = outcome.summary["failed"]
    if failed:
        raise cli.PersonError(
            f"{failed:,} of {outcome.summary['sent']:,} records failed: {outcome.last_error}"
        )
    if outcome.signal == signal.SIGINT:
        raise KeyboardInterrupt


@app.command("faults")
def faults_command() -> None:
    """List the faults with their options and defaults."""
    table = Table("fault", "what it does", "options and their defaults")
    for name, fault in BY_NAME.items():
        defaults = ", ".join(f"{key}={'-' if value is None else value}" for key, value in fault_options(name))
        table.add_row(name, inspect.cleandoc(fault.__doc__ or ""), defaults)
    Console().print(table)


@app.command("world")
def world_command(
    inventory: Annotated[Path, typer.Option(help="Write the racks and their thresholds here.")],
    seed: Annotated[int | None, typer.Option(help="The seed that the run will have.")] = None,
    racks: Annotated[int | None, typer.Option(help="The racks that the run will have.")] = None,
    scenario: Annotated[Path | None, typer.Option(help="The scenario of the run.")] = None,
    readings_per_second: Annotated[
        float, typer.Option(min=0, help="How many readings a rack sends a second.")
    ] = 1.0,
) -> None:
    """Write the inventory of a run without sending anything, for jobs that start before the producer."""
    given = {key: value for key, value in {"seed": seed, "racks": racks}.items() if value is not None}
    plan = load_scenario(scenario, given, [])
    write_inventory(inventory, make_world(plan.seed, plan.racks, plan.sites).inventory(readings_per_second))


def _rate(text: str | None) -> float | str | None:
    if text is None or text == "max":
        return text
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise cli.PersonError(f"--rate {text} is neither a number of events a second nor max.") from None


def _streams(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in TOPICS]
    if unknown:
        raise cli.PersonError(
            f"--streams {text}: there is no stream {unknown[0]!r}, but {', '.join(TOPICS)}."
        )
    return names


def _start(text: str | None) -> int | None:
    try:
        return None if text is None else to_ms(text)
    except ValueError as error:
        raise cli.PersonError(f"--start-time is wrong: {error}.") from None


if __name__ == "__main__":
    cli.run(app, "producer")
