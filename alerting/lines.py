"""How an alert is written: in colours for a person, as JSON for a program, to a file that has each once."""

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from alerting.incoming import NewAlert
from alerting.store import Store
from events.cli import PersonError
from events.times import to_ms

COLOURS = {"critical": "bold white on red", "error": "bold red", "warning": "yellow", "info": "green"}


def json_line(new: NewAlert) -> str:
    """Return the alert as it came, on one line, led by the time at which it was first seen."""
    fields = new.text.translate({10: " ", 13: " "}).strip().removeprefix("{")
    return f'{{"first_seen_time":"{new.first_seen_time}",{fields}\n'


def person_line(new: NewAlert) -> Text:
    """Return the alert for a terminal: when, how bad, what, where, in words, how long it took to decide."""
    alert = new.alert
    seconds = (to_ms(alert.detected_time) - to_ms(alert.event_time)) / 1000
    return Text.assemble(
        (f"{alert.event_time} ", "dim"),
        (f"{alert.severity:<8} ", COLOURS[alert.severity]),
        f"{alert.state:<7} {alert.rule:<16} {visible(alert.subject)} at {visible(alert.site_id)}: ",
        visible(alert.summary),
        (f" (detected after {seconds:.1f} s)", "dim"),
    )


def show(alerts: Iterable[NewAlert]) -> None:
    """Write alerts to the standard output, in colours on a terminal and as JSON lines elsewhere."""
    if sys.stdout.isatty():
        console = Console(highlight=False, soft_wrap=True)
        for new in alerts:
            console.print(person_line(new))
    else:
        sys.stdout.buffer.write("".join(map(json_line, alerts)).encode())  # UTF-8, whatever the locale
        sys.stdout.buffer.flush()


class LogFile:
    """A file of JSON lines with each alert exactly once.

    How long it was at the last commit is in the database. What lies beyond was written by a process that was
    killed before it could commit, and is cut off when the file is opened; those alerts come again.
    """

    def __init__(self, path: Path, store: Store, tell: Callable[[str], None]) -> None:
        self._path = path = path.resolve()
        self._store = store
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not blocking: a named pipe that nobody reads is to be refused, not waited for.
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise PersonError(
                f"the log file {path} cannot be written ({error.strerror}): check --log-file."
            ) from None
        try:
            self._claim()
            self._cut(tell)
        except BaseException:
            self.close()
            raise

    def _claim(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise PersonError(f"{self._path} is not a regular file, which could be cut: check --log-file.")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PersonError(
                f"another process writes to the log file {self._path}: stop it, or choose another."
            ) from None

    def _cut(self, tell: Callable[[str], None]) -> None:
        found = os.fstat(self._fd)
        inode, length = self._store.log_file(self._path) or (found.st_ino, found.st_size)
        if found.st_ino == inode and found.st_size >= length:
            os.ftruncate(self._fd, length)
        else:
            tell(
                f"The log file {self._path} was replaced or shortened: alerts are appended to what it holds."
            )
        with self._store.transaction():
            self._commit_length()

    def append(self, alerts: Iterable[NewAlert]) -> None:
        """Write alerts and record the new length, inside the transaction that also has the alerts."""
        data = "".join(map(json_line, alerts)).encode()
        if not data:
            return
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        os.fsync(self._fd)  # the database must never be ahead of the file, not even after a power cut
        self._commit_length()

    def _commit_length(self) -> None:
        now = os.fstat(self._fd)
        self._store.set_log_file(self._path, now.st_ino, now.st_size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def visible(text: str) -> str:
    """Return the text with what could move the cursor or recolour the terminal replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
