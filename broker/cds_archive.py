"""Make the CDS archive of the broker's classes, with which it starts in two thirds of the time.

`jars/cds_archive.py` says what such an archive is. `broker/server.py` uses it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import typer

from events import settings
from jars import cds_archive
from jars.java import QUICK_JAVA

EXITS_WITHIN_S = 300.0
"""How long the JVM may take to write the archive: seconds on an idle machine."""


def train(scratch: Path, option: str) -> None:
    """Start a broker with an option of its JVM in a new folder, create topics, and end it."""
    from broker import server
    from broker.topics import create_topics

    os.environ["KAFKA_HEAP_OPTS"] = f"-Xmx512m {QUICK_JAVA} {option}"
    running = server.start(server.free_port(), scratch / "kafka")
    process = psutil.Process(running.pid)
    try:
        create_topics(running.bootstrap, "")
        process.terminate()
        process.wait(EXITS_WITHIN_S)
    except BaseException:  # Ctrl-C does not wait for the archive
        with suppress(psutil.NoSuchProcess):
            process.kill()
        raise


def main() -> None:
    """Make the archive if it is missing, where the demo and the tests look."""
    archive = cds_archive.of_lock("broker", settings.jars_settings()[0])
    if archive.path.exists():
        return
    typer.echo(
        "setup: making the CDS archive of the broker's classes "
        "(ten seconds, once; Ctrl-C skips it) ...",
        err=True,
    )
    archive.make(train)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
