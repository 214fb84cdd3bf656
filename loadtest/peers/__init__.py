"""The overheating rule in other engines, each as its users would write it: what the project's own job is held against.

None of them is a dependency of the project: what they need lies in `.rackstream/peers` and in Maven's folders once
`python -m loadtest peers --install` has fetched it. All take the same options, say `running` when they are, write the
contract's alerts, and are checked by the same truth.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from events import settings
from events.cli import PersonError
from jars.java import java

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class JavaPeer:
    """A program that Maven builds into one jar."""

    folder: str
    jar: str

    @property
    def _jar(self) -> Path:
        return FOLDER / self.folder / "target" / self.jar

    @property
    def is_there(self) -> bool:
        """Whether it has been built since its sources changed."""
        if not self._jar.exists():
            return False
        sources = [FOLDER / self.folder / "pom.xml", *(FOLDER / self.folder / "src").rglob("*.java")]
        return self._jar.stat().st_mtime >= max(source.stat().st_mtime for source in sources)

    def install(self) -> None:
        """Build it; raise `PersonError` when that does not succeed."""
        maven = shutil.which("mvn")
        if maven is None:
            raise PersonError(
                "there is no Maven (mvn), which builds the peers in Java: install the package maven."
            )
        _run([maven, "-q", "-B", "-f", str(FOLDER / self.folder / "pom.xml"), "clean", "package"])

    def command(self) -> tuple[str, ...]:
        """Return what starts it: with as large a heap as Spark has."""
        return (java(), "-Xmx1g", "-jar", str(self._jar))


@dataclass(frozen=True, slots=True)
class PythonPeer:
    """A program with an environment of its own, made of its lock file."""

    folder: str

    @property
    def _environment(self) -> Path:
        return settings.load().rackstream_home / "peers" / self.folder

    @property
    def _lock(self) -> Path:
        return FOLDER / self.folder / "requirements.lock"

    @property
    def is_there(self) -> bool:
        """Whether what the lock file names is installed."""
        installed = self._environment / self._lock.name
        return installed.exists() and installed.read_bytes() == self._lock.read_bytes()

    def install(self) -> None:
        """Make its environment anew; raise `PersonError` when that does not succeed."""
        _run([sys.executable, "-m", "venv", "--clear", str(self._environment)])
        pip = [str(self._environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", "--require-hashes", "-r", str(self._lock)])
        shutil.copy(self._lock, self._environment)

    def command(self) -> tuple[str, ...]:
        """Return what starts it."""
        return (str(self._environment / "bin" / "python"), str(FOLDER / self.folder / "overheating.py"))


PEERS: dict[str, JavaPeer | PythonPeer] = {
    "kafka-streams": JavaPeer("kafka_streams", "overheating-kafka-streams.jar"),
    "flink": JavaPeer("flink", "overheating-flink.jar"),
    "quix": PythonPeer("quix"),
    "bytewax": PythonPeer("bytewax"),
}


def missing(engines: Iterable[str]) -> list[str]:
    """Return which of the engines are peers that are not installed, or not as their sources are now."""
    return sorted(engine for engine in set(engines) & PEERS.keys() if not PEERS[engine].is_there)


def command(engine: str) -> tuple[str, ...]:
    """Return what starts a peer."""
    return PEERS[engine].command()


def _run(arguments: list[str]) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise PersonError(
            f"{' '.join(arguments[:3])} ended with {done.returncode}: {words[-1] if words else ''}"
        )
