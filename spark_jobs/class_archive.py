"""An archive of Spark's classes, from which a JVM has them at once instead of out of 300 jars.

A session starts in half the time with it (docs/measurements.md). It is the JVM's own class data sharing (JEP 350): made
by one that ran for a while, used by those with the same Java and the same jars, passed over by all others. `make setup`
makes it; without it everything works as well, later.
"""

import hashlib
import sys
from importlib.metadata import version
from pathlib import Path
from subprocess import SubprocessError

import typer

from events import settings
from events.cli import PersonError
from jars.java import java


def archive_path(config: settings.Settings) -> Path:
    """Return where the archive of this Java and these packages lies, or would."""
    program = Path(java()).resolve()
    release = program.parent.parent / "release"
    parts = [str(program), release.read_text(encoding="utf-8") if release.exists() else ""]
    key = hashlib.sha256("|".join([*parts, sys.prefix, version("pyspark")]).encode()).hexdigest()
    return config.jars_dir / f"spark-classes-{key[:16]}.jsa"


def java_options(config: settings.Settings) -> str:
    """Return what a JVM is to be started with to use the archive; nothing where there is none."""
    path = archive_path(config).resolve()
    # Silent where it does not fit: what it has to say would go to the standard output.
    return f"-XX:SharedArchiveFile={path} -Xlog:cds=off -Xlog:cds+dynamic=off" if path.exists() else ""


def main() -> None:
    """Make the archive unless it is there; say so when it cannot be made, which is no reason to stop."""
    config = settings.load()
    if archive_path(config).exists():
        return
    typer.echo(
        "Archiving Spark's classes, so that it starts in half the time (half a minute, once) ...", err=True
    )
    from spark_jobs.class_training import make

    try:
        make(config, archive_path(config))
    except (PersonError, OSError, SubprocessError) as error:
        typer.echo(f"setup: that failed ({error}); all works without it, and starts later.", err=True)


if __name__ == "__main__":
    main()
