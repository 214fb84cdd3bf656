"""Keep CDS archives: a program's classes, which a JVM maps into memory instead of reading jars.

It is the JVM's class data sharing (JEP 350): a JVM that ran for a while writes the archive, JVMs
with the same Java and the same jars use it, and all others ignore it. `make setup` makes the
archives, and `make demo` makes them when the demo has ended. Without them everything works, but
starts later.

A training run writes into a folder of its own and renames the archive when it is complete. A killed
run therefore leaves no broken archive, and several runs at once do not disturb each other.
"""

import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError

import typer

from events.cli import UserFacingError
from events.settings import JarsSettings
from jars.fetch import LOCKS, jar_paths
from jars.java import java

SCRATCH_PREFIX = ".classes-"
ABANDONED_AFTER_S = 3600.0
"""The age from which a training run's folder must be that of a killed run: it takes a minute."""


@dataclass(frozen=True, slots=True)
class CdsArchive:
    """The archive of a program's classes for this Java, this environment and some jars.

    - `folder` holds it, and `program` begins its name.
    - `versions` says what is installed. The JVM refuses an archive of another class path, or of
      jars with other modification times: then the archive gets another name.
    """

    folder: Path
    program: str
    versions: tuple[str, ...]

    @property
    def path(self) -> Path:
        """The path of the archive, whether or not it exists."""
        program = Path(java()).resolve()
        release = program.parent.parent / "release"
        words = release.read_text(encoding="utf-8") if release.exists() else ""
        made_by = _hash(str(program), words, *self.versions)
        return self.folder / f"{self._prefix}{made_by}.jsa"

    @property
    def _prefix(self) -> str:
        return f"{self.program}-classes-{_hash(sys.prefix)}-"

    def java_options(self) -> list[str]:
        """Return the JVM options that use the archive; none if it does not exist."""
        path = self.path.resolve()
        # Silent where it does not fit: the JVM would write its warning to the standard output.
        silent = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        return [f"-XX:SharedArchiveFile={path}", *silent] if path.exists() else []

    def make(self, train: Callable[[Path, str], None], benefit: str) -> None:
        """Make the archive if it is missing, and say so if that fails, which is no error.

        - `train` gets a new folder and an option. It runs a JVM with that option until it exits.
          The JVM then writes the archive.
        - `benefit` says for people what the archive is good for, and how long it takes.
        """
        self.remove_older()
        if self.path.exists():
            return
        typer.echo(f"setup: making the CDS archive of {benefit}; Ctrl-C skips it ...", err=True)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, dir=self.folder) as scratch:
                made = Path(scratch).resolve() / "classes.jsa"
                train(Path(scratch), f"-XX:ArchiveClassesAtExit={made}")
                made.rename(self.path)
        except (UserFacingError, OSError, SubprocessError) as error:
            typer.echo(
                f"setup: that failed ({error}); everything works without it, but starts later.",
                err=True,
            )

    def remove_older(self) -> None:
        """Remove this program's archives of other versions, and folders of killed runs."""
        current = self.path
        for other in self.folder.glob(f"{self._prefix}*.jsa"):
            if other != current:
                other.unlink(missing_ok=True)
        for scratch in self.folder.glob(f"{SCRATCH_PREFIX}*"):
            with suppress(FileNotFoundError):  # another run has just removed its own
                if time.time() - scratch.stat().st_mtime > ABANDONED_AFTER_S:
                    shutil.rmtree(scratch, ignore_errors=True)


def of_lock(name: str, config: JarsSettings) -> CdsArchive:
    """Return the archive of the program that runs on the jars of a lock, such as `broker`.

    Raises `UserFacingError` if the jars were not fetched.
    """
    jars = jar_paths(name, config)
    return CdsArchive(config.jars_dir, name, (LOCKS[name].read_text("utf-8"), modified(jars)))


def modified(jars: list[Path]) -> str:
    """Return when the newest of these jars was written, as text."""
    return str(max((jar.stat().st_mtime_ns for jar in jars), default=0))


def _hash(*parts: str) -> str:
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]
