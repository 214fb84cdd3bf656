"""How is the rate held? Each record has its moment on an absolute schedule, however late others were.

A producer that fell behind catches up at full speed; its records keep their `scheduled_time`, so that whoever
measures from it sees the wait.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from producer.plan import Batch
from producer.schedule import Schedule

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
    batches: Iterable[Batch],
    schedule: Schedule,
    send: Callable[[Batch, int, int], None],
    *,
    since_start: Callable[[], float],
    sleep: Callable[[float], None],
    idle: Callable[[Slip], bool],
) -> Slip:
    """Send each batch, from one position to another, as its slots become due; at once if there is no pace.

    `idle` is called between sends and ends the run by returning False. Returns the slip.
    """
    slip = Slip()
    for batch in batches:
        due = schedule.due_s(batch.slots)
        position = 0
        while position < len(due):
            if not schedule.paced:
                send(batch, 0, len(due))
                position = len(due)
            elif (end := int(np.searchsorted(due, since_start(), side="right"))) > position:
                slip.now_s = since_start() - float(due[position])
                slip.most_s = max(slip.most_s, slip.now_s)
                send(batch, position, end)
                position = end
            else:
                wait = float(due[position]) - since_start()
                sleep(min(max(wait, SHORTEST_WAIT_S), LONGEST_WAIT_S))
            if not idle(slip):
                return slip
    return slip
