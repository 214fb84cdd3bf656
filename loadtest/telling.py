"""Where is the run? One line on standard error: rewritten in place on a terminal, when it changes elsewhere."""

import re
import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

EVERY_S = 5.0


class Telling:
    """Shows what goes on; `total` points are to come (0: not known how many)."""

    def __init__(self, total: int) -> None:
        console = Console(stderr=True)
        self._status = Status("", console=console) if console.is_terminal else None
        self._console, self._total = console, total
        self._done, self._last, self._at = 0, "", 0.0

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def show(self, what: str) -> None:
        """Show what goes on with the point that runs; elsewhere than on a terminal only now and then."""
        of = f" of {self._total}" if self._total else ""
        line = f"loadtest: point {self._done + 1}{of}, {what}"
        if self._status:
            self._status.update(line)
            return
        kind = re.sub(r"\d+ of", "", line)
        if kind != self._last or time.monotonic() - self._at > EVERY_S:
            self._last, self._at = kind, time.monotonic()
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def finished(self, line: str) -> None:
        """Say what a point came to, for good."""
        self._done += 1
        self._console.print(line, highlight=False, soft_wrap=True, markup=False)
