"""Start a point's programs by name; their logs are in its folder, and a failure quotes its log."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from events.cli import UserFacingError
from loadtest import processes
from loadtest.processes import PYTHON_M

START_S = 180.0
"""How long a program may take to start on a busy machine."""
POLL_S = 0.1


class ProgramFailedError(UserFacingError):
    """A program failed under its load: in a search for the capacity, the rate was too high."""


class Programs:
    """Starts programs in one environment, each with a log in the folder."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder, self._env = folder, env
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def run_to_end(self, name: str, *command: str) -> None:
        """Run a program to its end; raise `UserFacingError` when it fails."""
        with self.running(name, *command) as child:
            if child.wait():
                raise UserFacingError(
                    f"python -m {command[0]} ended with exit status {child.returncode}: "
                    f"{self.last_output(name)}"
                )

    @contextmanager
    def running(
        self, name: str, *command: str, launcher: tuple[str, ...] = PYTHON_M
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a program while the block runs."""
        log = self.log(name)
        with processes.running(log, self._env, *command, launcher=launcher) as child:
            self._children[name] = child
            try:
                yield child
            finally:
                self._children.pop(name, None)

    def kill(self, name: str) -> None:
        """Kill a program and its children; it no longer counts as failed."""
        processes.kill(self._children.pop(name).pid)

    def check(self) -> None:
        """Raise `ProgramFailedError` when a program has failed."""
        if failure := self._failure():
            raise ProgramFailedError(failure)

    def _failure(self) -> str | None:
        for name, child in self._children.items():
            if child.poll():
                return (
                    f"the {name} ended with exit status {child.returncode}: "
                    f"{self.last_output(name)}"
                )
        return None

    def wait_for_output(self, name: str, phrases: list[str]) -> None:
        """Wait until a program's log contains all phrases.

        Raises `UserFacingError` when a program fails meanwhile: without load, no rate is too high.
        """
        deadline = time.monotonic() + START_S
        while True:
            output = self.log(name).read_text(encoding="utf-8", errors="replace")
            if all(phrase in output for phrase in phrases):
                return
            if failure := self._failure():
                raise UserFacingError(failure)
            if time.monotonic() > deadline:
                raise UserFacingError(
                    f"the {name} did not start within {START_S:.0f} s: {self.last_output(name)}"
                )
            time.sleep(POLL_S)

    def last_output(self, name: str) -> str:
        """Return the last line of a program's log, and where the log is."""
        log = self.log(name)
        lines = [
            line
            for line in log.read_text(encoding="utf-8", errors="replace").split("\n")
            if line.strip()
        ]
        return f"{lines[-1] if lines else 'no output.'} (log: {log})"

    def log(self, name: str) -> Path:
        """Return the path of a program's log."""
        return self._folder / f"{name}.log"
