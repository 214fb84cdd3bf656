"""Collect the status of an alerting process while it runs."""

from pathlib import Path

from events.alerting_status import PROGRAM, AlertingStatus
from events.status_file import BrokerStatus, Process, remove_superseded
from events.times import now_ms, to_text


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
        self._missing_topic: str | None = None
        self._missing_since: str | None = None
        self._unpublished_since: str | None = None
        self._counts = (0, 0, 0)

    def cycle(self, alerts: int, repeats: int, malformed: int) -> None:
        """Record that the main loop runs, and what it has read so far."""
        self._last_cycle = to_text(now_ms())
        self._counts = (alerts, repeats, malformed)

    def broker_answers(self, answers: bool, missing_topic: str | None = None) -> None:
        """Record whether the broker has answered the last request, and which topic it lacks."""
        if missing_topic != self._missing_topic:
            self._missing_topic = missing_topic
            self._missing_since = missing_topic and to_text(now_ms())
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
            missing_topic=self._missing_topic,
            missing_since=self._missing_since,
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
