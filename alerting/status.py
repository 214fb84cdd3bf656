"""The status of an alerting process, and whether it is healthy.

Health checks run every few seconds, so this module imports little.
"""

from pathlib import Path

from events.status_file import (
    BrokerStatus,
    Process,
    ProgramStatus,
    age_s,
    duration,
    process_problems,
    remove_superseded,
)
from events.times import now_ms, to_text

PROGRAM = "alerting"
MAX_CYCLE_S = 60.0
"""A cycle of the main loop ends sooner, even when every request to the broker times out."""
MAX_UNPUBLISHED_S = 60.0
"""How long a change may wait for its publication to the topic `incidents`."""


class AlertingStatus(ProgramStatus, kw_only=True):
    """What the status file of an alerting process holds, besides what every program's does.

    - `database`: the path of its database.
    - `last_cycle_time`: when the main loop last began to look for records.
    - `unpublished_since`: since when some incidents wait for their publication, or None.
    - `alerts`, `repeats`, `malformed`: the records read since the process started.
    """

    database: str
    last_cycle_time: str
    unpublished_since: str | None = None
    alerts: int = 0
    repeats: int = 0
    malformed: int = 0


class StatusRecorder:
    """Collects the status of this process; its threads call it.

    Every method assigns whole values, so a snapshot needs no lock and never blocks.
    """

    def __init__(self, servers: str, topic_prefix: str, database: Path) -> None:
        now = to_text(now_ms())
        self._process = Process(PROGRAM, topic_prefix, now)
        self._servers, self._database = servers, str(database.resolve())
        self._reachable, self._since = False, now
        self._last_cycle = now
        self._unpublished_since: str | None = None
        self._counts = (0, 0, 0)

    def cycle(self, alerts: int, repeats: int, malformed: int) -> None:
        """Record that the main loop runs, and what it has read so far."""
        self._last_cycle = to_text(now_ms())
        self._counts = (alerts, repeats, malformed)

    def broker_answers(self, answers: bool) -> None:
        """Record whether the broker has answered the last request."""
        if answers != self._reachable:
            self._reachable, self._since = answers, to_text(now_ms())

    def published(self, everything: bool) -> None:
        """Record whether the topic `incidents` has every change."""
        if everything:
            self._unpublished_since = None
        elif self._unpublished_since is None:
            self._unpublished_since = to_text(now_ms())

    def snapshot(self) -> AlertingStatus:
        """Return the status now."""
        alerts, repeats, malformed = self._counts
        return AlertingStatus(
            **self._process.header(),
            broker=BrokerStatus(
                servers=self._servers, reachable=self._reachable, since=self._since
            ),
            database=self._database,
            last_cycle_time=self._last_cycle,
            unpublished_since=self._unpublished_since,
            alerts=alerts,
            repeats=repeats,
            malformed=malformed,
        )

    def remove_superseded(self, home: Path) -> None:
        """Remove what earlier processes with this database have left."""
        remove_superseded(
            home, PROGRAM, AlertingStatus, lambda status: status.database == self._database
        )


def problems(status: AlertingStatus, at_ms: int) -> list[str]:
    """Return what is wrong with an alerting process, as sentences; none when it is healthy."""
    found = process_problems(status, at_ms)
    if found:
        return found
    process = f"process {status.pid}"
    cycle_s = age_s(status.last_cycle_time, at_ms)
    if cycle_s > MAX_CYCLE_S:
        return [
            f"{process} has read no records for {duration(cycle_s)}: see whether the reader of "
            "its standard output is paused, or start it again."
        ]
    if status.unpublished_since is not None:
        unpublished_s = age_s(status.unpublished_since, at_ms)
        if unpublished_s > MAX_UNPUBLISHED_S:
            return [
                f"{process} could not publish incidents for {duration(unpublished_s)}: its "
                "messages say why."
            ]
    return []
