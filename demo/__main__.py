"""Provide `python -m demo run`: the pipeline on this machine without Docker, then a verdict."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

import producer
from demo import processes, verdict_command
from demo.environment import ignore_personal_settings
from demo.run import Demo, Interrupted, Options, Signals
from events import cli, settings
from events.catalog import RULES as RULE_NAMES
from events.files import exclusive_lock, make_folder, writing
from producer.scenario import load_scenario

RULES = Path(__file__).with_name("rules.yaml")
SCENARIO = Path(producer.__file__).parent / "scenarios" / "demo.yaml"
LOCK = "lock"
"""The demo's lock file, which also marks its folder: the demo deletes all else that is there."""

app = cli.new_app(
    "Everything on this machine without Docker: broker, producer, Spark jobs, alerting, dashboard."
)


app.add_typer(verdict_command.app)


@app.command("run")
def run_command(
    duration: Annotated[
        float | None,
        typer.Option(
            min=1,
            envvar="DURATION",
            help="Seconds during which the producers send; without it until Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            envvar="PORT",
            help="The broker's port; by default 9092, or a free one if that is in use.",
            show_default=False,
        ),
    ] = None,
    dashboard_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            envvar="DASHBOARD_PORT",
            help="The dashboard's port; by default 8000, or a free one if that is in use.",
            show_default=False,
        ),
    ] = None,
    scenario: Annotated[
        Path,
        typer.Option(
            help="YAML file of what the producers send.",
            show_default="producer/scenarios/demo.yaml",
        ),
    ] = SCENARIO,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of the alerting rules; the default scenario has its own.",
            show_default=False,
        ),
    ] = None,
    watermark: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            help="Watermark of the job lost_signal, in seconds; by default its own. Other jobs "
            "would get it, too: needs --no-clickstream, and leaves out signal_statistics.",
            show_default=False,
        ),
    ] = None,
    clickstream: Annotated[
        bool,
        typer.Option(
            "--clickstream/--no-clickstream",
            help="Whether the demo has a clickstream, too, or only racks.",
        ),
    ] = True,
    start_jobs_first: Annotated[
        bool,
        typer.Option(
            "--start-jobs-first",
            help="Start all jobs before the producers, so that a short scenario is seen live.",
        ),
    ] = False,
) -> None:
    """Play a scenario, show its alerts as they come, and compare all outputs with the truth.

    While the producers send, the first Ctrl-C after the first alert ends them, and the comparison
    follows. Any other Ctrl-C ends the demo without one (exit 130).

    Exit status: 0 if nothing is missing or wrong and the scenario was long
    enough to prove it, else 1.

    The demo ignores `.env`, and the notification settings of the environment.
    """
    signals = Signals()
    signals.listen()
    ignore_personal_settings()
    config = settings.load()
    if watermark is not None and clickstream:
        raise cli.UserFacingError("--watermark is for the rules alone: add --no-clickstream.")
    if rules is None and scenario == SCENARIO:
        rules = RULES
    options = Options(
        scenario,
        load_scenario(scenario, {}, []),
        rules,
        duration,
        port,
        watermark,
        start_jobs_first,
        clickstream,
        dashboard_port,
        RULE_NAMES if scenario == SCENARIO else (),
    )
    passed = False
    try:
        with _folder((config.rackstream_home / "demo").resolve(), signals) as folder:
            passed = Demo(options, config, folder, signals).run()
    except Interrupted as interrupted:
        typer.echo("The demo was interrupted; every process that it started has ended.")
        raise typer.Exit(128 + interrupted.number) from None
    except BrokenPipeError:
        with suppress(OSError):
            # Otherwise Python complains once more when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    raise typer.Exit(0 if passed else 1)


@contextmanager
def _folder(folder: Path, signals: Signals) -> Iterator[Path]:
    """Yield the demo's folder, empty except for its lock; end the demo's processes afterwards."""
    make_folder(folder, "the demo's folder")
    _check_ours(folder)
    with exclusive_lock(
        folder / LOCK, f"another demo runs in {folder}: end it first, with Ctrl-C there."
    ):
        processes.end_all(folder)  # those of a demo that was killed
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        processes.mark_children(folder)
        try:
            yield folder
            signals.ignoring = True
        except BaseException:
            signals.ignoring = True
            raise
        finally:
            # Signals are ignored by now: even one that comes in the lines above has made it so.
            processes.end_all(folder)


def _check_ours(folder: Path) -> None:
    with writing(f"the demo's folder {folder}", "correct RACKSTREAM_HOME or the folder's owner"):
        names = [path.name for path in folder.iterdir()]
    if names and LOCK not in names:
        raise cli.UserFacingError(
            f"{folder} has files, but is not the folder of a demo, so it was not touched: "
            "set RACKSTREAM_HOME to another folder."
        )


if __name__ == "__main__":
    # Our own errors say what a user can act on.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    cli.run(app, "demo")
