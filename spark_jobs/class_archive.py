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
    words = release.read_text(encoding="utf-8") if release.exists() else ""
    made_by = _hash(str(program), words, version("pyspark"))
    return config.jars_dir / f"spark-classes-{_hash(sys.prefix)}-{made_by}.jsa"


def _hash(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]


def java_options(config: settings.Settings) -> str:
    """Return what a JVM is to be started with to use the archive; nothing where there is none."""
    path = archive_path(config).resolve()
    # Silent where it does not fit: what it has to say would go to the standard output.
    return f"-XX:SharedArchiveFile={path} -Xlog:cds=off -Xlog:cds+dynamic=off" if path.exists() else ""


def remove_older(config: settings.Settings) -> None:
    """Remove what this environment had with another Java or other packages: 190 MB each."""
    for other in config.jars_dir.glob(f"spark-classes-{_hash(sys.prefix)}-*.jsa"):
        if other != archive_path(config):
            other.unlink(missing_ok=True)


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
    remove_older(config)


if __name__ == "__main__":
    main()
