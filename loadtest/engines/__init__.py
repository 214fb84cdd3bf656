"""Run jobs of the project in other stream engines, to compare the project's own with them.

None of them is a dependency of the project. `python -m loadtest engines --install` fetches what
they need into `.rackstream/engines` and into Maven's folders. All of them take the same options,
print `running` when they run, write what the contract says of the job, and are checked against the
same truth.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from events import settings
from events.catalog import JobName
from events.cli import UserFacingError
from jars.java import java

FOLDER = Path(__file__).parent
SHARED_MODULE = "shared"


@dataclass(frozen=True, slots=True)
class JavaEngine:
    """An engine in Java, which Maven builds into one jar."""

    module: str
    jar: str
    jobs: tuple[JobName, ...]
    """The jobs that it has, by the names of the Spark jobs."""
    options: tuple[str, ...] = ()
    """Options of its own that a plan may give."""

    @property
    def _java(self) -> Path:
        return FOLDER / "java"

    @property
    def _jar(self) -> Path:
        return self._java / self.module / "target" / self.jar

    @property
    def is_installed(self) -> bool:
        """Whether the jar is newer than its sources and those of the shared module."""
        if not self._jar.exists():
            return False
        sources = [self._java / "pom.xml"]
        for module in (SHARED_MODULE, self.module):
            sources += [self._java / module / "pom.xml"]
            sources += (self._java / module / "src").rglob("*.java")
        return self._jar.stat().st_mtime >= max(source.stat().st_mtime for source in sources)

    def install(self) -> None:
        """Build the jar and run its tests; raise `UserFacingError` when that fails."""
        maven = shutil.which("mvn")
        if maven is None:
            raise UserFacingError(
                "Maven (mvn), which builds the Java engines, is not installed: "
                "install the package maven."
            )
        pom = str(self._java / "pom.xml")
        _run([maven, "-q", "-B", "-f", pom, "-pl", self.module, "-am", "clean", "package"])

    def command(self, job: str) -> tuple[str, ...]:
        """Return the command that starts a job in it, with the same heap as Spark."""
        return (java(), "-Xmx1g", "-jar", str(self._jar), job)


@dataclass(frozen=True, slots=True)
class PythonEngine:
    """An engine in Python, which has a virtual environment of its own."""

    name: str
    jobs: tuple[str, ...] = ("overheating",)
    options: tuple[str, ...] = ()

    @property
    def _python(self) -> Path:
        return FOLDER / "python"

    @property
    def _environment(self) -> Path:
        return settings.load().rackstream_home / "engines" / self.name

    @property
    def _lock(self) -> Path:
        return self._python / f"requirements-{self.name}.lock"

    @property
    def is_installed(self) -> bool:
        """Whether the environment was made from the lock file as it is now."""
        installed = self._environment / self._lock.name
        return installed.exists() and installed.read_bytes() == self._lock.read_bytes()

    def install(self) -> None:
        """Create the environment anew; raise `UserFacingError` when that fails."""
        _run([sys.executable, "-m", "venv", "--clear", str(self._environment)])
        pip = [str(self._environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", "--require-hashes", "-r", str(self._lock)])
        shutil.copy(self._lock, self._environment)

    def command(self, job: str) -> tuple[str, ...]:
        """Return the command that starts a job in it."""
        return (
            str(self._environment / "bin" / "python"),
            str(self._python / f"{job}_{self.name}.py"),
        )


ENGINES: dict[str, JavaEngine | PythonEngine] = {
    "kafka-streams": JavaEngine(
        "kafka_streams",
        "rackstream-kafka-streams.jar",
        ("overheating", "rack_temperature"),
        ("--update-interval-ms",),
    ),
    "flink": JavaEngine(
        "flink",
        "rackstream-flink.jar",
        ("overheating", "rack_temperature", "ad_attribution"),
        ("--update-interval-ms",),
    ),
    "quix": PythonEngine("quix"),
    "bytewax": PythonEngine("bytewax"),
}


def missing(engines: Iterable[str]) -> list[str]:
    """Return which of these engines are not installed, or older than their sources."""
    return sorted(name for name in set(engines) & ENGINES.keys() if not ENGINES[name].is_installed)


def command(engine: str, job: str) -> tuple[str, ...]:
    """Return the command that starts a job in an engine."""
    return ENGINES[engine].command(job)


def _run(arguments: list[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr).strip().splitlines()
        raise UserFacingError(
            f"{' '.join(arguments[:3])} failed with exit status {done.returncode}: "
            f"{output[-1] if output else 'no output'}"
        )
