"""What becomes of an alert and what people are told of it: pure rules, without a clock, a database or a network.

Each pair of rule and subject has one `Life`. An alert in `WARNING` begins an incident in it, one in `NORMAL` ends
that. What people were last told is part of it, so what they have to be told next is a function of it, of what
people did (`Hold`) and of the time. All times are epoch milliseconds; those of alerts are when the job decided.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from alerting.notices import SEVERITIES, Item, Kind, Notice, notice_id, worst
from events.records import Alert, Instant, Rule, Severity
from events.times import to_ms, to_text


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


def is_flapping(life: Life, now_ms: int, times: Times) -> bool:
    """Tell whether it changes too often to tell each change; over once nothing changed for a whole window."""
    return now_ms < _flapping_until(life, times)


def _flapping_until(life: Life, times: Times) -> int:
    if not times.flap_changes or not life.changes:
        return 0
    known = life.told is not None and life.told.flapping
    if not known and len(life.changes) < times.flap_changes:
        return 0
    return life.changes[-1 if known else -times.flap_changes] + times.flap_window_ms


@dataclass(frozen=True, slots=True)
class Flush:
    """What a look at a site brings: a notice or none, the lives that changed, when to look again (None: never)."""

    notice: Notice | None
    lives: list[Life]
    next_ms: int | None


def flush(site_id: str, watched: Sequence[tuple[Life, Hold]], now_ms: int, times: Times) -> Flush:
    """Decide what people are told of a site now."""
    kinds = [_kind(life, hold, now_ms, times) for life, hold in watched]
    if any(_reminder_ms(life, hold, times) <= now_ms for life, hold in watched):
        # All at once: reminders one by one, as each comes due, would be a notice every few minutes.
        kinds = [
            kind or ("reminder" if _reminder_ms(life, hold, times) < NEVER else None)
            for kind, (life, hold) in zip(kinds, watched, strict=True)
        ]
    after = [
        _after(life, hold, kind, now_ms, times) for kind, (life, hold) in zip(kinds, watched, strict=True)
    ]
    items = [_item(life, kind) for kind, (life, _) in zip(kinds, watched, strict=True) if kind]
    moments = [
        moment
        for life, (_, hold) in zip(after, watched, strict=True)
        for moment in _moments(life, hold, now_ms, times)
    ]
    return Flush(
        _notice(site_id, items, after, now_ms) if items else None,
        [life for life, (before, _) in zip(after, watched, strict=True) if life is not before],
        min(moments, default=None),
    )


NEVER = 1 << 62


def _quiet(life: Life, hold: Hold) -> bool:
    return hold.silenced_until_ms is not None or hold.inhibited or (life.firing and hold.ack is not None)


def _kind(life: Life, hold: Hold, now_ms: int, times: Times) -> Kind | None:
    """Return what has to be told of a life, None: nothing."""
    flapping = is_flapping(life, now_ms, times)
    if life.told and not life.firing and not flapping:
        return "resolved"  # always: who was told of something open is told of its end, whatever is silenced
    if _quiet(life, hold):
        return None
    if life.told is None:
        return _first_kind(life, flapping)
    if life.firing and rank(life.severity) > rank(life.told.severity):
        return "escalated"
    if flapping:
        return None if life.told.flapping else "flapping"
    again = life.told.flapping or life.told.alert_id != life.alert_id
    return "firing" if again else None


def _first_kind(life: Life, flapping: bool) -> Kind | None:
    if flapping and life.untold:
        return "flapping"
    if life.firing:
        return "firing"
    return "passed" if life.untold else None


def _after(life: Life, hold: Hold, kind: Kind | None, now_ms: int, times: Times) -> Life:
    flapping = is_flapping(life, now_ms, times)
    if kind in ("resolved", "passed"):
        return replace(life, told=None, untold=0)
    if kind is not None:
        told = Told(life.alert_id, life.severity, now_ms, flapping)
        return replace(life, told=told, untold=0)
    over = life.untold and not life.told and not life.firing and not flapping
    return replace(life, untold=0) if over and _quiet(life, hold) else life


def _reminder_ms(life: Life, hold: Hold, times: Times) -> int:
    return NEVER if life.told is None or _quiet(life, hold) else life.told.time_ms + times.remind_after_ms


def _moments(life: Life, hold: Hold, now_ms: int, times: Times) -> list[int]:
    """Return the moments to come at which time alone may bring something to tell."""
    if not life.needs_attention:
        return []
    found = (_flapping_until(life, times), hold.silenced_until_ms or 0, _reminder_ms(life, hold, times))
    return [moment for moment in found if now_ms < moment < NEVER]


def _item(life: Life, kind: Kind) -> Item:
    told = life.told
    ended = kind == "resolved" and told is not None
    severity = told.severity if ended and told else life.severity
    return Item(
        kind=kind,
        alert_id=life.alert_id,
        rule=life.rule,
        subject=life.subject,
        severity=severity,
        was=told.severity if told and told.severity != severity else None,
        start_time=life.start_time,
        end_time=life.end_time,
        summary=life.summary,
        changes=life.untold,
    )


def _notice(site_id: str, items: list[Item], after: Sequence[Life], now_ms: int) -> Notice:
    still_open = [life.told.severity for life in after if life.told]
    return Notice(
        notice_id=notice_id(site_id, items, now_ms),
        site_id=site_id,
        made_time=to_text(now_ms),
        severity=worst(still_open),
        open_count=len(still_open),
        items=items,
    )
