"""Send batches on an absolute schedule.

Each record has its due time, however late the records before it were. A producer that fell behind
catches up at full speed. Its records keep their `scheduled_time`, so that latencies measured from
it include the delay.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from producer.hashing import Floats

MIN_WAIT_S = 0.0005
"""What is due within this time goes out together; shorter sleeps cost more than they gain."""
MAX_WAIT_S = 0.1
"""How soon a stop is noticed."""
EMPTY_ROUND_WAIT_S = 0.05
"""The pause of a paced run after a round without records.

It is shorter than a round up to 300,000 records/s, so that the run does not fall behind.
"""


class Timed(Protocol):
    """Records with due times."""

    @property
    def scheduled_s(self) -> Floats:
        """When each record is due, in seconds after the start."""


TimedBatch = TypeVar("TimedBatch", bound=Timed)


@dataclass(slots=True)
class ScheduleLag:
    """How far behind its schedule the producer is, and was at most, in seconds."""

    now_s: float = 0.0
    max_s: float = 0.0


def send_on_schedule(
    rounds: Iterable[Sequence[TimedBatch]],
    send: Callable[[TimedBatch, int, int], None],
    *,
    paced: bool,
    since_start: Callable[[], float],
    sleep: Callable[[float], None],
    idle: Callable[[ScheduleLag], bool],
) -> ScheduleLag:
    """Send each batch as its slots become due, or at once if the run is not paced; return the lag.

    A round has one batch per stream, for the same chunk of time; they are sent side by side.
    `send` gets a batch and the positions of the first record and after the last. `idle` is called
    between sends, and ends the run by returning False.
    """
    lag = ScheduleLag()
    for batches in rounds:
        if not any(len(batch.scheduled_s) for batch in batches):  # all subjects are silent
            if paced:
                lag.now_s = 0.0
                sleep(EMPTY_ROUND_WAIT_S)
            if not idle(lag):
                return lag
        positions = [0] * len(batches)
        while any(positions[i] < len(batch.scheduled_s) for i, batch in enumerate(batches)):
            behind = []
            for i, batch in enumerate(batches):
                position, end = positions[i], len(batch.scheduled_s)
                if paced:
                    end = int(np.searchsorted(batch.scheduled_s, since_start(), side="right"))
                if end > position:
                    if paced:
                        behind.append(since_start() - float(batch.scheduled_s[position]))
                    send(batch, position, end)
                    positions[i] = end
            if behind:
                lag.now_s = max(behind)
                lag.max_s = max(lag.max_s, lag.now_s)
            elif paced:
                lag.now_s = 0.0
                nexts = (
                    float(b.scheduled_s[p])
                    for p, b in zip(positions, batches, strict=True)
                    if p < len(b.scheduled_s)
                )
                sleep(
                    min(
                        max(min(nexts, default=0.0) - since_start(), MIN_WAIT_S),
                        MAX_WAIT_S,
                    )
                )
            if not idle(lag):
                return lag
    return lag
