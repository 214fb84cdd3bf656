"""What people are told of a site, and when to look again: pure rules over `alerting.life`, time handed in."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from alerting.life import Hold, Life, Times, Told, rank
from alerting.notices import Item, Kind, Notice, notice_id, worst
from events.times import to_text

NEVER = 1 << 62
"""A moment that does not come."""


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
