"""Show the status of a long run in one line on stderr."""

import sys
from typing import Self

from rich.console import Console
from rich.status import Status


class StatusLine:
    """Rewrites one line in place on a terminal, and prints each line elsewhere."""

    def __init__(self) -> None:
        self.console = Console(stderr=True)
        self._status = Status("", console=self.console) if self.console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def update(self, line: str) -> None:
        """Show the line instead of the one before, or print it."""
        if self._status:
            self._status.update(line)
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201
