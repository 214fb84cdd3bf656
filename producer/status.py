"""Record the producer's status: what it has sent, and how far it is behind its schedule.

Health checks run every few seconds, so this module loads nothing of the streams.
"""

from collections.abc import Callable
from threading import Lock
from typing import Protocol

from msgspec.structs import replace

from events.status_file import (
    MAX_BROKER_OUTAGE_S,
    BrokerStatus,
    Process,
    ProgramStatus,
    age_s,
    duration,
    process_problems,
)
from events.times import now_ms, to_text

PROGRAM = "producer"
MAX_BEHIND_S = 10.0
"""A pause of garbage collection or of the machine is shorter, and the producer catches up."""
SILENT_AFTER_S = 5.0
"""A broker that has acknowledged nothing for so long, although records wait, does not answer."""


class ProducerStatus(ProgramStatus, kw_only=True, omit_defaults=True):
    """What the producer says about itself.

    - `behind_schedule_s`: absent for a run at the highest rate, which has no schedule, and when all
      is sent.
    - `failing_since`: since when records have failed and none was acknowledged.
    """

    sent: int
    acknowledged: int
    failed: int
    unacknowledged: int
    behind_schedule_s: float | None = None
    failing_since: str | None = None
    last_error: str | None = None


class Counters(Protocol):
    """What a publisher counts."""

    sent: int
    failed: int

    @property
    def last_error(self) -> str:
        """What holds records up, or why one failed; empty if nothing does."""

    @property
    def acknowledged(self) -> int:
        """How many records the broker has."""

    @property
    def waiting(self) -> int:
        """How many records have no answer yet."""


class StatusRecorder:
    """What is known of a run; `snapshot` may be called from other threads.

    In: `clock` returns epoch milliseconds.
    """

    def __init__(
        self,
        process: Process,
        servers: str,
        publisher: Counters,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._process, self._publisher, self._clock = process, publisher, clock
        self._broker = BrokerStatus(servers=servers, reachable=True, since=to_text(clock()))
        self._acknowledged, self._answered_ms = 0, clock()
        self._failed = 0
        self._failing_since: str | None = None
        self._failed_ms = 0
        self._lag: tuple[float, int] | None = None
        self._lock = Lock()

    def on_lag(self, lag_s: float) -> None:
        """Take note of how far the run is behind its schedule now."""
        self._lag = lag_s, self._clock()

    def on_schedule_end(self) -> None:
        """Take note that all is sent: the run now waits for acknowledgements only."""
        self._lag = None

    def snapshot(self) -> ProducerStatus:
        """Return the status now."""
        with self._lock:
            return self._snapshot()

    def _snapshot(self) -> ProducerStatus:
        publisher, at_ms = self._publisher, self._clock()
        acknowledged, waiting = publisher.acknowledged, publisher.waiting
        failed = publisher.failed
        if acknowledged > self._acknowledged:
            self._failing_since = None
        elif failed > self._failed:
            self._failing_since, self._failed_ms = self._failing_since or to_text(at_ms), at_ms
        elif not waiting and at_ms - self._failed_ms > 1000 * SILENT_AFTER_S:
            self._failing_since = None  # nothing has been sent since
        self._failed = failed
        if acknowledged > self._acknowledged or not waiting:
            self._acknowledged, self._answered_ms = acknowledged, at_ms
        reachable = at_ms - self._answered_ms <= 1000 * SILENT_AFTER_S
        if reachable != self._broker.reachable:
            since = to_text(at_ms if reachable else self._answered_ms)
            self._broker = replace(self._broker, reachable=reachable, since=since)
        behind_s = None
        if (lag := self._lag) is not None:
            # A full buffer holds up the run, which then says nothing: it falls behind as time goes.
            lag_s, noted_ms = lag
            silent_s = (at_ms - noted_ms) / 1000
            behind_s = round(lag_s + (silent_s if silent_s > 1 else 0.0), 3)
        return ProducerStatus(
            **self._process.header() | {"written_time": to_text(at_ms)},
            broker=self._broker,
            sent=publisher.sent,
            acknowledged=acknowledged,
            failed=failed,
            unacknowledged=waiting,
            behind_schedule_s=behind_s,
            failing_since=self._failing_since,
            last_error=publisher.last_error or None,
        )


def problems(status: ProducerStatus, at_ms: int) -> list[str]:
    """Return what is wrong with a producer, as sentences; none when it is healthy."""
    found = process_problems(status, at_ms)
    if not found and status.failing_since is not None:
        failing_s = age_s(status.failing_since, at_ms)
        if failing_s > MAX_BROKER_OUTAGE_S:
            found.append(
                f"the broker at {status.broker.servers} has accepted no record for "
                f"{duration(failing_s)} ({status.last_error}): see whether the topics exist."
            )
    if not found and (status.behind_schedule_s or 0.0) > MAX_BEHIND_S:
        found.append(
            f"the producer is {duration(status.behind_schedule_s or 0.0)} behind its schedule: "
            "lower its rate, or see what holds up the broker."
        )
    return found
