"""Provide what tests of statuses and metrics need: a clock, and what a publisher counts."""

from dataclasses import dataclass

T0 = 1_764_000_000_000


class Clock:
    """A clock that the test moves, or sets."""

    def __init__(self) -> None:
        self.ms = T0
        self.running_s = 0.0

    def __call__(self) -> int:
        """Return epoch milliseconds."""
        return self.ms

    def forward(self, seconds: float) -> None:
        """Move it."""
        self.ms += round(1000 * seconds)
        self.running_s += seconds


@dataclass
class Publisher:
    """Counts as a publisher does; the test decides what is acknowledged."""

    sent: int = 0
    failed: int = 0
    last_error: str = ""
    acknowledged: int = 0

    @property
    def waiting(self) -> int:
        """How many records have no answer yet."""
        return self.sent - self.acknowledged - self.failed
