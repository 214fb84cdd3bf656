"""Make the CDS archive: Spark's classes, which a JVM maps into memory instead of reading 300 jars.

A session starts in half the time with it. It is the JVM's class data sharing (JEP 350): a JVM that
ran for a while writes the archive, JVMs with the same Java and the same jars use it, and all others
ignore it. `make setup` makes it, and `make demo` makes it when the demo has ended. Without it
everything works, but starts later.

A training run writes into a folder of its own and renames the archive when it is complete. A killed
run therefore leaves no broken archive, and several runs at once do not disturb each other.
"""

import hashlib
import shutil
import sys
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from subprocess import SubprocessError

import pyspark
import typer

from events import settings
from events.cli import UserFacingError
from jars.fetch import LOCKS
from jars.java import java

SCRATCH_PREFIX = ".classes-"
ABANDONED_AFTER_S = 3600.0
"""The age from which a training run's folder must be that of a killed run: it takes a minute."""


def archive_path(config: settings.JarsSettings) -> Path:
    """Return the path of the archive for this Java and these packages, whether or not it exists.

    The JVM refuses an archive of another class path, or of jars with other modification times:
    reinstalled packages and another lock of the connector need a new one.
    """
    program = Path(java()).resolve()
    release = program.parent.parent / "release"
    words = release.read_text(encoding="utf-8") if release.exists() else ""
    jars = Path(pyspark.__path__[0]) / "jars"
    installed = max((jar.stat().st_mtime_ns for jar in jars.glob("*.jar")), default=0)
    connector = LOCKS["spark"].read_text(encoding="utf-8")
    made_by = _hash(str(program), words, version("pyspark"), str(installed), connector)
    return config.jars_dir / f"spark-classes-{_hash(sys.prefix)}-{made_by}.jsa"


def _hash(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]


def java_options(config: settings.JarsSettings) -> str:
    """Return the JVM options that use the archive, or nothing if it does not exist."""
    path = archive_path(config).resolve()
    # Silent where it does not fit: the JVM would write its warning to the standard output.
    silent = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    return f'"-XX:SharedArchiveFile={path}" {silent}' if path.exists() else ""


def remove_older(config: settings.JarsSettings) -> None:
    """Remove this environment's archives for another Java or other packages, and abandoned ones."""
    current = archive_path(config)
    for other in config.jars_dir.glob(f"spark-classes-{_hash(sys.prefix)}-*.jsa"):
        if other != current:
            other.unlink(missing_ok=True)
    for scratch in config.jars_dir.glob(f"{SCRATCH_PREFIX}*"):
        with suppress(FileNotFoundError):  # another run has just removed its own
            if time.time() - scratch.stat().st_mtime > ABANDONED_AFTER_S:
                shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Make the archive if it is missing, and say so if that fails, which is no error.

    It lies where the demo and the tests look: a mistake in `.env` must not stop `make setup`.
    """
    config = settings.jars_settings()[0]
    if archive_path(config).exists():
        return
    typer.echo(
        "setup: making the CDS archive of Spark's classes, which halves its start "
        "(half a minute, once; Ctrl-C skips it) ...",
        err=True,
    )
    from spark_jobs.runtime.cds_training import make

    try:
        make(config, archive_path(config), SCRATCH_PREFIX)
    except (UserFacingError, OSError, SubprocessError) as error:
        typer.echo(
            f"setup: that failed ({error}); everything works without it, but starts later.",
            err=True,
        )
    remove_older(config)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
