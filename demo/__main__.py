"""`python -m demo`: the whole pipeline on this machine without Docker, and a verdict at the end."""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

import producer
from demo import processes
from demo.run import Demo, Interrupted, Options, Signals
from events import cli, settings
from producer.scenario import load_scenario

RULES = Path(__file__).with_name("rules.yaml")
SCENARIO = Path(producer.__file__).parent / "scenarios" / "demo.yaml"

app = cli.new_app("Everything on this machine without Docker: broker, producer, Spark jobs, alerting.")


@app.command()
def demo(
    duration: Annotated[
        float | None,
        typer.Option(
            min=1,
            envvar="DURATION",
            help="Seconds of producing; until Ctrl-C if not given.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            envvar="PORT",
            help="The broker's port; by default 9092, or a free one.",
            show_default=False,
        ),
    ] = None,
    scenario: Annotated[Path, typer.Option(help="What the producer does.")] = SCENARIO,
    rules: Annotated[
        Path | None,
        typer.Option(
            help="What is an alert; of the demo's own scenario by its own rules.", show_default=False
        ),
    ] = None,
) -> None:
    """Play a scenario, show its alerts as they come, and compare all that came out with the producer's truth.

    Exit 0 when nothing is missing or wrong, and the scenario was long enough to prove something; otherwise 1.
    """
    signals = Signals()
    signals.listen()
    config = settings.load()
    if rules is None and scenario == SCENARIO:
        rules = RULES
    options = Options(scenario, load_scenario(scenario, {}, []), rules, duration, port)
    holds = False
    try:
        with _folder((config.rackstream_home / "demo").resolve(), signals) as folder:
            holds = Demo(options, config, folder, signals).run()
    except Interrupted as asked:
        typer.echo("The demo was ended early; every process that it started has ended.")
        raise typer.Exit(128 + asked.number) from None
    except BrokenPipeError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python complains once more when it ends
    raise typer.Exit(0 if holds else 1)


@contextmanager
def _folder(folder: Path, signals: Signals) -> Iterator[Path]:
    """Yield the demo's folder, empty but for the lock, and end every process of the demo on the way out."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise cli.PersonError(
                f"another demo runs in {folder}: end that first, with Ctrl-C there."
            ) from None
        processes.end_all(folder)  # of a demo that was killed
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()
        processes.mark_children(folder)
        try:
            yield folder
            signals.deaf = True
        except BaseException:
            signals.deaf = True
            raise
        finally:
            # Always deaf by here: a signal that comes even in the lines above has made it so.
            processes.end_all(folder)


if __name__ == "__main__":
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what a person can act on is in our own sentences
    cli.run(app, "demo")
