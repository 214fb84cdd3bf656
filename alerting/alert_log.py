"""Write alerts to the standard output and to a log file that has each alert exactly once."""

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from alerting.decoding import NewAlert
from alerting.store import Store
from events.cli import UserFacingError
from events.times import to_ms

SEVERITY_COLOURS = {
    "critical": "bold white on red",
    "error": "bold red",
    "warning": "yellow",
    "info": "green",
}


def json_line(new: NewAlert) -> str:
    """Return the alert as received, on one line, preceded by the time when it was first seen."""
    fields = new.text.translate({10: " ", 13: " "}).strip().removeprefix("{")
    return f'{{"first_seen_time":"{new.first_seen_time}",{fields}\n'


def terminal_line(new: NewAlert) -> Text:
    """Return the alert as a coloured line for a terminal."""
    alert = new.alert
    seconds = (to_ms(alert.detected_time) - to_ms(alert.event_time)) / 1000
    return Text.assemble(
        (f"{alert.event_time} ", "dim"),
        (f"{alert.severity:<8} ", SEVERITY_COLOURS[alert.severity]),
        f"{alert.state:<7} {alert.rule:<16} ",
        f"{printable(alert.subject)} at {printable(alert.site_id)}: ",
        printable(alert.summary),
        (f" (detected after {seconds:.1f} s)", "dim"),
    )


def print_alerts(alerts: Iterable[NewAlert]) -> None:
    """Print alerts: coloured lines on a terminal, JSON lines elsewhere."""
    if sys.stdout.isatty():
        console = Console(highlight=False, soft_wrap=True)
        for new in alerts:
            console.print(terminal_line(new))
    else:
        # Bytes, because the output is UTF-8 in every locale.
        sys.stdout.buffer.write("".join(map(json_line, alerts)).encode())
        sys.stdout.buffer.flush()


class LogFile:
    """A file of JSON lines that has each alert exactly once.

    The database holds the file's length as of the last commit. What lies beyond was written by a
    process that was killed before it could commit. It is cut off when the file is opened, and its
    alerts are read again.
    """

    def __init__(self, path: Path, store: Store, report: Callable[[str], None]) -> None:
        self._path = path = path.resolve()
        self._store = store
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Non-blocking, so that opening a named pipe without a reader fails instead of hanging.
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK, 0o644)
        except OSError as error:
            raise UserFacingError(
                f"the log file {path} cannot be written ({error.strerror}): check --log-file."
            ) from None
        try:
            self._lock()
            self._cut_uncommitted(report)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise UserFacingError(
                f"the log file {self._path} is not a regular file: check --log-file."
            )
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserFacingError(
                f"another process writes to the log file {self._path}: stop it, or choose another "
                "with --log-file."
            ) from None

    def _cut_uncommitted(self, report: Callable[[str], None]) -> None:
        found = os.fstat(self._fd)
        inode, length = self._store.log_file(self._path) or (found.st_ino, found.st_size)
        if found.st_ino == inode and found.st_size >= length:
            os.ftruncate(self._fd, length)
        else:
            report(
                f"The log file {self._path} was replaced or shortened: alerts are appended to it."
            )
        with self._store.transaction():
            self._record_length()

    def append(self, alerts: Iterable[NewAlert]) -> None:
        """Write alerts and record the new length; call it in the transaction of the alerts."""
        data = "".join(map(json_line, alerts)).encode()
        if not data:
            return
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        # The database must never be ahead of the file, even after a power cut.
        os.fsync(self._fd)
        self._record_length()

    def _record_length(self) -> None:
        found = os.fstat(self._fd)
        self._store.set_log_file(self._path, found.st_ino, found.st_size)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def printable(text: str) -> str:
    """Replace characters that could move the cursor or change the colours of a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
