"""What becomes of an alert: pure rules, without a clock, a database or a network.

Each pair of rule and subject has one `Life`. An alert in `WARNING` begins an incident in it, one in `NORMAL` ends
that. What people were last told is part of it, so what they have to be told next (`alerting.telling`) is a function
of it, of what people did (`Hold`) and of the time. All times are epoch milliseconds; those of alerts are when the
job decided.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from alerting.notices import SEVERITIES, worst
from events.records import Alert, Instant, Rule, Severity
from events.times import to_ms


class Status(StrEnum):
    """What an operator sees of an incident."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Times:
    """How long is waited before people are told, in milliseconds; `docs/alerting.md` says why so long.

    `flap_changes` alerts within `flap_window_ms` are flapping; 0: nothing is.
    """

    group_wait_ms: int = 30_000
    group_interval_ms: int = 300_000
    remind_after_ms: int = 14_400_000
    flap_changes: int = 6
    flap_window_ms: int = 900_000


class Place(Struct, frozen=True):
    """Where a record lies in its topic, and when the broker appended it."""

    partition: int
    append_ms: int

    def is_before(self, other: "Place") -> bool:
        """Tell whether this comes first; within a partition, records are handed over in their order."""
        return self.partition != other.partition and self.append_ms < other.append_ms


class Told(Struct, frozen=True):
    """What people were last told of something that they have not been told the end of."""

    alert_id: str
    severity: Severity
    time_ms: int
    flapping: bool


class Life(Struct, frozen=True):
    """One subject under one rule: its last incident, and what people know of it.

    `alert_id` is that of the alert that opened the incident, and its name. `worst` is its highest severity.
    `changes` are the times of the last alerts, as many as make flapping. `untold` counts the alerts since people
    were last told; each is in exactly one notice, unless it came and went while nobody wanted to hear of it.
    """

    rule: Rule
    subject: str
    site_id: str
    alert_id: str
    firing: bool
    severity: Severity
    worst: Severity
    summary: str
    start_time: Instant
    end_time: Instant | None
    opened_ms: int
    raised_ms: int
    place: Place
    changes: tuple[int, ...] = ()
    untold: int = 0
    told: Told | None = None

    @property
    def needs_attention(self) -> bool:
        """Tell whether there is, or may come to be, something to tell without a new alert."""
        return self.firing or self.untold > 0 or self.told is not None


@dataclass(frozen=True, slots=True)
class Ack:
    """A person has it in hand: which incident and severity they saw, None where they did not say; and when."""

    alert_id: str | None
    severity: Severity | None
    time_ms: int
    by: str


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps people from being told: a silence and its end, an acknowledgement, an outage of the site."""

    silenced_until_ms: int | None = None
    ack: Ack | None = None
    inhibited: bool = False


def taken(life: Life | None, alert: Alert, place: Place, now_ms: int, times: Times) -> Life | None:
    """Return the life after an alert; the same one when the alert changes nothing in it."""
    if life is not None and place.is_before(life.place):
        return life  # partitions were added: it was overtaken by what lies in a newer one
    opens = alert.state == "WARNING" and not (life and life.firing)
    if opens:
        life = _opened(life, alert, place)
    elif life is None or not life.firing:
        return life
    elif alert.state == "WARNING":
        life = _continued(life, alert, place)
    else:
        life = replace(life, firing=False, end_time=alert.event_time, place=place)
    moment = min(to_ms(alert.detected_time), now_ms)
    kept = max(times.flap_changes, 1)
    return replace(life, changes=(*life.changes, moment)[-kept:], untold=life.untold + 1)


def _opened(before: Life | None, alert: Alert, place: Place) -> Life:
    detected_ms = to_ms(alert.detected_time)
    return Life(
        rule=alert.rule,
        subject=alert.subject,
        # What people know to be open at one site has to end there, wherever the rack has moved since.
        site_id=before.site_id if before and before.told else alert.site_id,
        alert_id=alert.alert_id,
        firing=True,
        severity=alert.severity,
        worst=alert.severity,
        summary=alert.summary,
        start_time=alert.event_time,
        end_time=None,
        opened_ms=detected_ms,
        raised_ms=detected_ms,
        place=place,
        changes=before.changes if before else (),
        untold=before.untold if before else 0,
        told=before.told if before else None,
    )


def _continued(life: Life, alert: Alert, place: Place) -> Life:
    rises = rank(alert.severity) > rank(life.severity)
    return replace(
        life,
        severity=alert.severity,
        worst=worst((life.worst, alert.severity)),
        summary=alert.summary,
        raised_ms=to_ms(alert.detected_time) if rises else life.raised_ms,
        place=place,
    )


def rank(severity: Severity) -> int:
    """Return how bad a severity is: 0 is the least."""
    return SEVERITIES.index(severity)


def acknowledged(life: Life, acks: Iterable[Ack]) -> Ack | None:
    """Return the last acknowledgement that holds: for this incident, and for a severity at least as high.

    The answer depends on what was acknowledged and not on when this process heard of it, so processes that read
    the two topics at different speeds come to agree, and one that comes before its alert waits for it.
    """
    holding = [ack for ack in acks if life.firing and _covers(ack, life)]
    return holding[-1] if holding else None


def _covers(ack: Ack, life: Life) -> bool:
    means_it = ack.time_ms >= life.opened_ms if ack.alert_id is None else ack.alert_id == life.alert_id
    if ack.severity is None:
        return means_it and ack.time_ms >= life.raised_ms
    return means_it and rank(ack.severity) >= rank(life.severity)


def status(life: Life, hold: Hold) -> Status:
    """Return what an operator sees."""
    if not life.firing:
        return Status.RESOLVED
    if hold.silenced_until_ms is not None:
        return Status.SILENCED
    return Status.ACKNOWLEDGED if hold.ack else Status.FIRING
