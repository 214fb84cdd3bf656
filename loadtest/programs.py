"""The programs of a point, by name: their logs lie in its folder, and the one that dies says why."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from events.cli import PersonError
from loadtest.processes import PYTHON_M, running

START_S = 180.0
"""How long a program may take to start on a busy machine."""
STEP_S = 0.1


class Programs:
    """Starts programs in an environment, with a log for each in the folder."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder, self._env = folder, env
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def to_end(self, name: str, *command: str) -> None:
        """Run a program to its end; raise `PersonError` when it fails."""
        with self.running(name, *command) as child:
            if child.wait():
                raise PersonError(f"python -m {command[0]} ended with {child.returncode}: {self.words(name)}")

    @contextmanager
    def running(
        self, name: str, *command: str, by: tuple[str, ...] = PYTHON_M
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a program while the block runs."""
        with running(self.log(name), self._env, *command, by=by) as child:
            self._children[name] = child
            try:
                yield child
            finally:
                del self._children[name]

    def check(self) -> None:
        """Raise `PersonError` when one has failed."""
        for name, child in self._children.items():
            if child.poll():
                raise PersonError(f"the {name} ended with {child.returncode}: {self.words(name)}")

    def await_words(self, name: str, words: list[str]) -> None:
        """Wait until a program has said all of it."""
        deadline = time.monotonic() + START_S
        while True:
            said = self.log(name).read_text(encoding="utf-8", errors="replace")
            if all(word in said for word in words):
                return
            self.check()
            if time.monotonic() > deadline:
                raise PersonError(f"the {name} did not start within {START_S:.0f} s: {self.words(name)}")
            time.sleep(STEP_S)

    def words(self, name: str) -> str:
        """Return a program's last words, and where all of them are."""
        log = self.log(name)
        lines = [
            line for line in log.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()
        ]
        return f"{lines[-1] if lines else 'it said nothing.'} (more in {log})"

    def log(self, name: str) -> Path:
        """Return where a program's output goes."""
        return self._folder / f"{name}.log"
