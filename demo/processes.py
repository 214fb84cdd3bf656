"""Start the demo's processes, each in its own session, watch them, and end them all at the end.

Every process that the demo starts, and every one that those start, inherits an environment variable
with the demo's folder. The demo finds its processes by it: also when it was interrupted between
starting one and noting it, and also those of an earlier demo that was killed.
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

from events.cli import UserFacingError

FOLDER_VARIABLE = "RACKSTREAM_DEMO"
"""The environment variable that names the demo's folder in each of its processes."""
GRACE_S = 5.0
"""How long a process may take to end by itself before it is killed."""
LOG_TAIL_LINES = 5
"""How many lines of its log are shown when a process has died."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process of the demo: its name in sentences, and its log."""

    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def check(self) -> None:
        """Raise `UserFacingError` with the end of its log when the process has ended."""
        status = self.process.poll()
        if status is not None:
            raise UserFacingError(with_log_tail(f"{self.name} ended {_how(status)}", self.log))

    def end(self) -> None:
        """Ask it to end, and wait; `end_all` ends what it has started."""
        self.process.terminate()
        try:
            self.process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    name: str, log: Path, env: Mapping[str, str], command: Sequence[str], *, shows: bool = False
) -> Child:
    """Start `python -m COMMAND`; output and errors go to the log, with `shows` only errors."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=None if shows else file,
            stderr=file,
            start_new_session=True,  # Ctrl-C reaches the demo alone
        )
    return Child(name, process, log)


def mark_children(folder: Path) -> None:
    """Give every process that is started from now on the environment variable of the demo."""
    os.environ[FOLDER_VARIABLE] = str(folder)


def end_all(folder: Path) -> None:
    """End every process of the demo, SIGTERM first; raise `UserFacingError` if one survives."""
    remaining = _processes_of(folder)
    for number in (signal.SIGTERM, signal.SIGKILL):
        signalled: set[int] = set()
        deadline = time.monotonic() + GRACE_S
        # Look again and again: a process just started may not have had the variable a moment ago.
        while time.monotonic() < deadline:
            for process in remaining:
                if process.pid not in signalled:
                    signalled.add(process.pid)
                    with suppress(psutil.Error):
                        process.send_signal(number)
            time.sleep(0.05)
            remaining = _processes_of(folder)
            if not remaining:
                return
    numbers = ", ".join(str(process.pid) for process in remaining)
    raise UserFacingError(f"processes of the demo could not be ended: {numbers}; end them by hand.")


def with_log_tail(sentence: str, log: Path) -> str:
    """Add the last lines of a log and its path to a sentence."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        tail = [line for line in lines if line.strip()][-LOG_TAIL_LINES:]
        if tail:
            return f"{sentence}; the end of its log, {log}:\n  " + "\n  ".join(tail)
    return f"{sentence}; its log, {log}, is empty."


def _how(status: int) -> str:
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"


def _processes_of(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's, or it has ended
            if process.environ().get(FOLDER_VARIABLE) == str(folder) and process.pid != os.getpid():
                found.append(process)
    return found
