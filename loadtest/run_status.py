"""Show a run of a plan on stderr: the point that runs, and the results of finished points."""

import re
import time

from events.status_line import StatusLine

INTERVAL_S = 5.0


class RunStatus(StatusLine):
    """Shows the current point of `total` (0: unknown) and what it does."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._total = total
        self._done, self._last, self._at = 0, "", 0.0

    def show(self, what: str) -> None:
        """Show the current point's status; without a terminal on changes, or after some seconds."""
        of = f" of {self._total}" if self._total else ""
        line = f"loadtest: point {self._done + 1}{of}, {what}"
        kind = re.sub(r"\d+ of", "", line)
        now = time.monotonic()
        if self.console.is_terminal or kind != self._last or now - self._at > INTERVAL_S:
            self._last, self._at = kind, now
            self.update(line)

    def print(self, line: str) -> None:
        """Print a finished point's result, and count the point."""
        self._done += 1
        self.console.print(line, highlight=False, soft_wrap=True, markup=False)
