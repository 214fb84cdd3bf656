"""`python -m jars fetch|lock`: bring the jars, or lock new versions."""

from typing import Annotated

import typer

from events import cli, settings
from jars.fetch import LOCKS, fetch, relock

app = cli.new_app("The Java parts: a Kafka broker, and Spark's connector to Kafka.")


@app.command("fetch")
def fetch_command() -> None:
    """Fetch the jars of every lock file, once; at once when they are there."""
    for name in sorted(LOCKS):
        fetch(name, settings.load())


@app.command("lock")
def lock_command(name: Annotated[str, typer.Argument(help="Which lock: broker or spark.")]) -> None:
    """Write the SHA-256 of every jar into a lock file, after its versions were edited by hand."""
    if name not in LOCKS:
        raise cli.PersonError(f"there is no lock {name!r}: choose one of {', '.join(sorted(LOCKS))}.")
    relock(name, settings.load())


if __name__ == "__main__":
    cli.run(app, "jars")
