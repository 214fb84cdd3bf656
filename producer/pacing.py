"""How is the rate held? Each record has its moment on an absolute schedule, however late others were.

A producer that fell behind catches up at full speed; its records keep their `scheduled_time`, so that whoever
measures from it sees the wait.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from producer.stream import Batch

SHORTEST_WAIT_S = 0.0005
"""What is due within this time goes out together; shorter naps would cost more than they place."""
LONGEST_WAIT_S = 0.1
"""How soon a stop is noticed."""


@dataclass(slots=True)
class Slip:
    """How far behind its schedule the producer is, and was at most, in seconds."""

    now_s: float = 0.0
    most_s: float = 0.0


def send_on_schedule(
    rounds: Iterable[Sequence[Batch]],
    send: Callable[[Batch, int, int], None],
    *,
    paced: bool,
    since_start: Callable[[], float],
    sleep: Callable[[float], None],
    idle: Callable[[Slip], bool],
) -> Slip:
    """Send each batch, from one position to another, as its slots become due; at once if there is no pace.

    The batches of a round, one for each stream, go side by side. `idle` is called between sends and ends the run
    by returning False. Returns the slip.
    """
    slip = Slip()
    for batches in rounds:
        positions = [0] * len(batches)
        while any(positions[i] < len(batch.due_s) for i, batch in enumerate(batches)):
            behind = []
            for i, batch in enumerate(batches):
                position, end = positions[i], len(batch.due_s)
                if paced:
                    end = int(np.searchsorted(batch.due_s, since_start(), side="right"))
                if end > position:
                    if paced:
                        behind.append(since_start() - float(batch.due_s[position]))
                    send(batch, position, end)
                    positions[i] = end
            if behind:
                slip.now_s = max(behind)
                slip.most_s = max(slip.most_s, slip.now_s)
            elif paced:
                nexts = (
                    float(b.due_s[p]) for p, b in zip(positions, batches, strict=True) if p < len(b.due_s)
                )
                sleep(min(max(min(nexts, default=0.0) - since_start(), SHORTEST_WAIT_S), LONGEST_WAIT_S))
            if not idle(slip):
                return slip
    return slip
