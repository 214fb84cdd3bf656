"""Provide `python -m jars fetch|lock`: fetch the locked jars, or lock new versions."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


import time
from typing import Annotated

import typer

from events import cli, settings
from jars.fetch import LOCKS, fetch, relock

app = cli.new_app("The Java parts: a Kafka broker, and Spark's connector to Kafka.")


Lock = Annotated[str | None, typer.Argument(help="Which lock: broker or spark; both if not given.")]


@app.command("fetch")
def fetch_command(name: Lock = None) -> None:
    """Fetch the locked jars that are missing.

    They go where the tests and the demo look, which ignore `.env`, and where the settings say.
    """
    names = _names(name)
    for number, place in enumerate(settings.jars_settings()):
        begin = time.monotonic()
        try:
            count = fetch(names, place)
        except OSError as error:
            sentence = f"the jars cannot be written to {place.jars_dir} ({error}): "
            if number == 0:
                raise cli.UserFacingError(
                    f"{sentence}correct that, or set RACKSTREAM_JARS to another folder."
                ) from None
            typer.echo(f"setup: {sentence}correct RACKSTREAM_JARS in .env.", err=True)
            continue
        if count:
            seconds = time.monotonic() - begin
            typer.echo(f"setup: fetched {count} jars in {seconds:.0f} s", err=True)


@app.command("lock")
def lock_command(name: Lock = None) -> None:
    """Write the SHA-256 of every jar into a lock file, after its versions were edited by hand."""
    relock(_names(name), settings.load())


def _names(name: str | None) -> list[str]:
    if name is None:
        return sorted(LOCKS)
    if name not in LOCKS:
        raise cli.UserFacingError(
            f"there is no lock {name!r}: choose one of {', '.join(sorted(LOCKS))}."
        )
    return [name]


if __name__ == "__main__":
    cli.run(app, "jars")
