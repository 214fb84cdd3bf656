"""The demo's processes: each in a session of its own, watched while it runs, and all ended at the end.

Whatever the demo starts, and whatever that starts in turn, inherits an environment variable that names the
demo's folder. By it every one of them is found again, also after an interruption between a start and the line
that would have noted it, and also those of an earlier demo that was killed before it could clean up.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from events.cli import PersonError

MARK = "RACKSTREAM_DEMO"
"""The environment variable that marks the demo's processes, its value the demo's folder."""
GRACE_S = 5.0
"""How long a process may take to end by itself: no more, since nothing of a demo outlives it."""
LAST_LINES = 5
"""How many lines of a log are shown when its process died."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of the demo, by the name that a person knows it by, and where its log lies."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """Raise `PersonError` with its last words when it has ended."""
        status = self.process.poll()
        if status is not None:
            raise PersonError(last_words(f"{self.name} ended {_how(status)}", self.log))

    def end(self) -> None:
        """Ask it to end, and wait until it has; the rest of its session is left to `end_all`."""
        self.process.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    name: str, log: Path, env: Mapping[str, str], command: Sequence[str], *, shows: bool = False
) -> Child:
    """Start `python -m COMMAND` with its output in the log; with `shows` only its errors."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=None if shows else file,
            stderr=file,
            start_new_session=True,  # Ctrl-C in the terminal reaches the demo alone, which ends the others
        )
    return Child(name, process, log)


def mark_children(folder: Path) -> None:
    """Make everything that this process starts from now on bear the demo's mark."""
    os.environ[MARK] = str(folder)


def end_all(folder: Path) -> None:
    """End every process that bears the mark, SIGTERM first; raise `PersonError` if one cannot be ended."""
    left = _marked(folder)
    for number in (signal.SIGTERM, signal.SIGKILL):
        asked: set[int] = set()
        deadline = time.monotonic() + GRACE_S
        # Looked for again and again: who was just being started may not have borne the mark a moment ago.
        while time.monotonic() < deadline:
            for process in left:
                if process.pid not in asked:
                    asked.add(process.pid)
                    with suppress(psutil.Error):
                        process.send_signal(number)
            time.sleep(0.05)
            left = _marked(folder)
            if not left:
                return
    numbers = ", ".join(str(process.pid) for process in left)
    raise PersonError(f"processes of the demo could not be ended: {numbers}; end them by hand.")


def last_words(what: str, log: Path) -> str:
    """Return a sentence on what happened, with the end of the log and where it lies."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        words = [line for line in lines if line.strip()][-LAST_LINES:]
        if words:
            return f"{what}, with these last words (all of them: {log}):\n  " + "\n  ".join(words)
    return f"{what} without a word; its log would lie in {log}."


def _how(status: int) -> str:
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"


def _marked(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or gone meanwhile
            if process.environ().get(MARK) == str(folder) and process.pid != os.getpid():
                found.append(process)
    return found
