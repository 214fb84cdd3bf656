"""Define the state of one incident, and how an alert changes it.

Everything here is pure: no clock, no database, no network. Each pair of rule and subject has one
`IncidentState`. A `WARNING` alert opens or updates its incident, a `NORMAL` alert resolves it. The
state also holds the last notification about the incident, so that
`alerting.incidents.notification_policy` can decide on the next one from the state, the
`Suppression` and the time alone. All times are epoch milliseconds; the time of an alert is its
`detected_time`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct
from msgspec.structs import replace

from alerting.notifications.notice import SEVERITIES, highest_severity
from events.catalog import RuleName
from events.records import Alert, IncidentStatus, Instant, Severity
from events.times import to_ms


@dataclass(frozen=True, slots=True)
class NotificationTiming:
    """When people are notified; `docs/alerting.md` explains the defaults.

    An incident that had `flap_changes` alerts within `flap_window_ms` is flapping; 0 switches the
    detection off.
    """

    group_wait_ms: int = 30_000
    group_interval_ms: int = 300_000
    remind_after_ms: int = 14_400_000
    flap_changes: int = 6
    flap_window_ms: int = 900_000


class RecordPosition(Struct, frozen=True):
    """The partition of a record, and when the broker appended it."""

    partition: int
    append_ms: int

    def is_before(self, other: "RecordPosition") -> bool:
        """Tell whether the record precedes another one that was processed earlier.

        Records of one partition are processed in their order, so only partitions are compared.
        """
        return self.partition != other.partition and self.append_ms < other.append_ms


class LastNotification(Struct, frozen=True):
    """The last notification about an incident that people believe to be open."""

    alert_id: str
    severity: Severity
    time_ms: int
    flapping: bool


class IncidentState(Struct, frozen=True):
    """The last incident of one rule and subject, and what people were notified of.

    - `alert_id`: the id of the alert that opened the incident; it identifies the incident.
    - `change_times_ms`: the times of the last alerts, as many as flap detection needs.
    - `pending_changes`: the alerts since the last notification. Each alert is counted in exactly
      one notice, unless its incident began and ended while it was suppressed.
    - `last_notification`: None when people believe that nothing is open.
    """

    rule: RuleName
    subject: str
    site_id: str
    alert_id: str
    firing: bool
    severity: Severity
    highest_severity: Severity
    summary: str
    start_time: Instant
    end_time: Instant | None
    opened_ms: int
    severity_raised_ms: int
    position: RecordPosition
    change_times_ms: tuple[int, ...] = ()
    pending_changes: int = 0
    last_notification: LastNotification | None = None

    @property
    def is_active(self) -> bool:
        """Whether a notification may become due without another alert."""
        return self.firing or self.pending_changes > 0 or self.last_notification is not None


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement; `alert_id` and `severity` are None where the command names none."""

    alert_id: str | None
    severity: Severity | None
    time_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class Suppression:
    """What suppresses notifications: a silence, an acknowledgement, an outage of the site."""

    silenced_until_ms: int | None = None
    ack: Ack | None = None
    inhibited: bool = False


def apply_alert(
    incident: IncidentState | None,
    alert: Alert,
    position: RecordPosition,
    now_ms: int,
    timing: NotificationTiming,
) -> IncidentState | None:
    """Return the state after an alert; the same object when the alert changes nothing."""
    if incident is not None and position.is_before(incident.position):
        return incident  # partitions were added, and a newer partition was read first
    opens = alert.state == "WARNING" and not (incident and incident.firing)
    if opens:
        incident = _open_incident(incident, alert, position)
    elif incident is None or not incident.firing:
        return incident
    elif alert.state == "WARNING":
        incident = _update_incident(incident, alert, position)
    else:
        incident = replace(incident, firing=False, end_time=alert.event_time, position=position)
    change_ms = min(to_ms(alert.detected_time), now_ms)
    kept = max(timing.flap_changes, 1)
    return replace(
        incident,
        change_times_ms=(*incident.change_times_ms, change_ms)[-kept:],
        pending_changes=incident.pending_changes + 1,
    )


def _open_incident(
    previous: IncidentState | None, alert: Alert, position: RecordPosition
) -> IncidentState:
    detected_ms = to_ms(alert.detected_time)
    return IncidentState(
        rule=alert.rule,
        subject=alert.subject,
        # An incident that people were notified of at one site is resolved at that site, even if
        # the rack has moved since.
        site_id=previous.site_id if previous and previous.last_notification else alert.site_id,
        alert_id=alert.alert_id,
        firing=True,
        severity=alert.severity,
        highest_severity=alert.severity,
        summary=alert.summary,
        start_time=alert.event_time,
        end_time=None,
        opened_ms=detected_ms,
        severity_raised_ms=detected_ms,
        position=position,
        change_times_ms=previous.change_times_ms if previous else (),
        pending_changes=previous.pending_changes if previous else 0,
        last_notification=previous.last_notification if previous else None,
    )


def _update_incident(
    incident: IncidentState, alert: Alert, position: RecordPosition
) -> IncidentState:
    rises = severity_rank(alert.severity) > severity_rank(incident.severity)
    return replace(
        incident,
        severity=alert.severity,
        highest_severity=highest_severity((incident.highest_severity, alert.severity)),
        summary=alert.summary,
        severity_raised_ms=to_ms(alert.detected_time) if rises else incident.severity_raised_ms,
        position=position,
    )


def severity_rank(severity: Severity) -> int:
    """Return the rank of a severity; 0 is the lowest."""
    return SEVERITIES.index(severity)


def covering_ack(incident: IncidentState, acks: Iterable[Ack]) -> Ack | None:
    """Return the last acknowledgement that covers the incident at its current severity.

    The result does not depend on when this process read the command. So processes that read the two
    topics at different speeds agree, and an acknowledgement read before its alert still applies.
    """
    covering = [ack for ack in acks if incident.firing and _covers(ack, incident)]
    return covering[-1] if covering else None


def _covers(ack: Ack, incident: IncidentState) -> bool:
    same_incident = (
        ack.time_ms >= incident.opened_ms
        if ack.alert_id is None
        else ack.alert_id == incident.alert_id
    )
    if ack.severity is None:
        return same_incident and ack.time_ms >= incident.severity_raised_ms
    return same_incident and severity_rank(ack.severity) >= severity_rank(incident.severity)


def incident_status(incident: IncidentState, suppression: Suppression) -> IncidentStatus:
    """Return the status that an operator sees."""
    if not incident.firing:
        return "resolved"
    if suppression.silenced_until_ms is not None:
        return "silenced"
    return "acknowledged" if suppression.ack else "firing"
