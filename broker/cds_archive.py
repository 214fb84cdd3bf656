"""Make the CDS archive of the broker's classes, with which it starts in two thirds of the time.

`jars/cds_archive.py` says what such an archive is. `broker/server.py` uses it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from events import settings
from events.cli import UserFacingError, unwind_at_end
from jars import cds_archive
from jars.java import QUICK_JAVA

EXITS_WITHIN_S = 300.0
"""How long the JVM may take to write the archive: seconds on an idle machine."""


def train(scratch: Path, option: str) -> None:
    """Start a broker with an option of its JVM in a new folder, create topics, and end it."""
    from broker import server
    from broker.topics import create_topics

    options = [*QUICK_JAVA.split(), option]
    running = server.start(server.free_port(), scratch / "kafka", java_options=options)
    broker = psutil.Process(running.pid)
    try:
        create_topics(running.bootstrap, "")
        broker.terminate()
        broker.wait(EXITS_WITHIN_S)
    except psutil.TimeoutExpired:
        raise UserFacingError(f"the broker did not end within {EXITS_WITHIN_S:.0f} s") from None
    finally:  # Ctrl-C does not wait for the archive
        with suppress(psutil.NoSuchProcess):
            broker.kill()
            broker.wait()


def main() -> None:
    """Make the archive if it is missing, where the demo and the tests look."""
    unwind_at_end()  # the broker would outlive it
    os.environ[settings.ENV_FILE_VARIABLE] = ""  # as the demo and the tests, which use it
    archive = cds_archive.of_lock("broker", settings.jars_settings()[0])
    archive.make(
        train, "the broker's classes, with which it starts a third sooner (ten seconds, once)"
    )


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
