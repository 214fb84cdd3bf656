"""Show the progress of a run: a status line on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable

from events.status_line import StatusLine

INTERVAL_S = 5.0
TERMINAL_INTERVAL_S = 0.2


class Progress(StatusLine):
    """Shows a line on stderr from time to time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._every_s = TERMINAL_INTERVAL_S if self.console.is_terminal else INTERVAL_S
        self._last_s = clock()
        self._last_sent = 0

    def show(
        self, sent: int, waiting: int, failed: int, lag_s: float | None, error: str = ""
    ) -> None:
        """Show the rate since the last line, totals, lag and errors, if the interval is over."""
        now = self._clock()
        if now - self._last_s < self._every_s:
            return
        rate = (sent - self._last_sent) / (now - self._last_s)
        self._last_s, self._last_sent = now, sent
        parts = [
            f"{rate:,.0f} records/s",
            f"{sent:,} sent",
            f"{waiting:,} unacknowledged",
        ]
        if lag_s is not None:
            parts.append(f"{lag_s * 1000:,.0f} ms behind schedule")
        parts.append(f"{failed:,} failed" + (f" ({error})" if error else ""))
        self.update("producer: " + ", ".join(parts))
