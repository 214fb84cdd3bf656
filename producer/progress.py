"""How is the run going? One line: rewritten in place on a terminal, every few seconds elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

EVERY_S = 5.0
EVERY_S_ON_TERMINAL = 0.2


class Progress:
    """Shows a line on standard error from time to time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        console = Console(stderr=True)
        self._status = Status("", console=console) if console.is_terminal else None
        self._every_s = EVERY_S_ON_TERMINAL if self._status else EVERY_S
        self._last_s = clock()
        self._last_sent = 0

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status:
            self._status.stop()

    def show(self, sent: int, waiting: int, failed: int, slip_s: float | None, trouble: str = "") -> None:
        """Show the rate since the last line, the total, what waits for an answer, the lag and the errors."""
        now = self._clock()
        if now - self._last_s < self._every_s:
            return
        rate = (sent - self._last_sent) / (now - self._last_s)
        self._last_s, self._last_sent = now, sent
        parts = [f"{rate:,.0f} records/s", f"{sent:,} sent", f"{waiting:,} of them not acknowledged"]
        if slip_s is not None:
            parts.append(f"{slip_s * 1000:,.0f} ms behind schedule")
        parts.append(f"{failed:,} failed" + (f" ({trouble})" if trouble else ""))
        line = "producer: " + ", ".join(parts)
        if self._status:
            self._status.update(line)
        else:
            print(line, file=sys.stderr, flush=True)  # noqa: T201
