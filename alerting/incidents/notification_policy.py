"""Decide which notice a site gets now, and when to check the site again.

The functions are pure: incidents, their suppressions and the time are passed in.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from alerting.incidents.state import (
    IncidentState,
    LastNotification,
    NotificationTiming,
    Suppression,
    severity_rank,
)
from alerting.notifications.notice import (
    Notice,
    NoticeItem,
    NoticeKind,
    highest_severity,
    new_notice_id,
)
from events.times import to_text

NEVER_MS = 1 << 62
"""A time that never comes."""


@dataclass(frozen=True, slots=True)
class SiteDecision:
    """The outcome of checking a site.

    - `notice`: the notice to send, or None.
    - `changed_incidents`: the incidents whose state changed.
    - `next_check_ms`: when to check again, or None if only another alert or command can matter.
    """

    notice: Notice | None
    changed_incidents: list[IncidentState]
    next_check_ms: int | None


def decide(
    site_id: str,
    incidents: Sequence[tuple[IncidentState, Suppression]],
    now_ms: int,
    timing: NotificationTiming,
) -> SiteDecision:
    """Decide which notice a site gets now."""
    stored = [incident for incident, _ in incidents]
    incidents = [(_until(now_ms, incident), suppression) for incident, suppression in incidents]
    kinds = [
        _notice_kind(incident, suppression, now_ms, timing) for incident, suppression in incidents
    ]
    if any(
        _reminder_due_ms(incident, suppression, timing) <= now_ms
        for incident, suppression in incidents
    ):
        # Remind of all incidents at once: one by one, a site would get a notice every few minutes.
        kinds = [
            kind
            or ("reminder" if _reminder_due_ms(incident, suppression, timing) < NEVER_MS else None)
            for kind, (incident, suppression) in zip(kinds, incidents, strict=True)
        ]
    after = [
        _after_notice(incident, suppression, kind, now_ms, timing)
        for kind, (incident, suppression) in zip(kinds, incidents, strict=True)
    ]
    items = [
        _notice_item(incident, kind)
        for kind, (incident, _) in zip(kinds, incidents, strict=True)
        if kind
    ]
    check_times_ms = [
        check_ms
        for incident, (_, suppression) in zip(after, incidents, strict=True)
        for check_ms in _check_times_ms(incident, suppression, now_ms, timing)
    ]
    return SiteDecision(
        _new_notice(site_id, items, after, now_ms) if items else None,
        [
            incident
            for incident, before in zip(after, stored, strict=True)
            if incident is not before
        ],
        min(check_times_ms, default=None),
    )


def _until(now_ms: int, incident: IncidentState) -> IncidentState:
    """Return an incident without times that lie ahead, as after the clock was set back.

    Its changes keep their distances, which decide whether it flaps.
    """
    last, changes_ms = incident.last_notification, incident.change_times_ms
    ahead_ms = max((last.time_ms if last else 0, *changes_ms)) - now_ms
    if ahead_ms <= 0:
        return incident
    return replace(
        incident,
        change_times_ms=tuple(at_ms - ahead_ms for at_ms in changes_ms),
        last_notification=replace(last, time_ms=last.time_ms - ahead_ms) if last else None,
    )


def is_flapping(incident: IncidentState, now_ms: int, timing: NotificationTiming) -> bool:
    """Tell whether an incident changes too often to notify people of each change.

    Flapping ends when nothing has changed for a whole flap window.
    """
    return now_ms < _flapping_until_ms(incident, timing)


def _flapping_until_ms(incident: IncidentState, timing: NotificationTiming) -> int:
    if not timing.flap_changes or not incident.change_times_ms:
        return 0
    notified = incident.last_notification is not None and incident.last_notification.flapping
    if not notified and len(incident.change_times_ms) < timing.flap_changes:
        return 0
    decisive_change_ms = incident.change_times_ms[-1 if notified else -timing.flap_changes]
    return decisive_change_ms + timing.flap_window_ms


def _is_suppressed(incident: IncidentState, suppression: Suppression) -> bool:
    return (
        suppression.silenced_until_ms is not None
        or suppression.inhibited
        or (incident.firing and suppression.ack is not None)
    )


def _notice_kind(
    incident: IncidentState, suppression: Suppression, now_ms: int, timing: NotificationTiming
) -> NoticeKind | None:
    """Return the kind of notice that is due for an incident, or None."""
    last = incident.last_notification
    flapping = is_flapping(incident, now_ms, timing)
    if last and not incident.firing and not flapping:
        return "resolved"  # even if suppressed: people believe that it is still open
    if _is_suppressed(incident, suppression):
        return None
    if last is None:
        return _first_kind(incident, flapping)
    if incident.firing and severity_rank(incident.severity) > severity_rank(last.severity):
        return "escalated"
    if flapping:
        return None if last.flapping else "flapping"
    fires_again = last.flapping or last.alert_id != incident.alert_id
    return "firing" if fires_again else None


def _first_kind(incident: IncidentState, flapping: bool) -> NoticeKind | None:
    if flapping and incident.pending_changes:
        return "flapping"
    if incident.firing:
        return "firing"
    return "resolved_unnotified" if incident.pending_changes else None


def _after_notice(
    incident: IncidentState,
    suppression: Suppression,
    kind: NoticeKind | None,
    now_ms: int,
    timing: NotificationTiming,
) -> IncidentState:
    flapping = is_flapping(incident, now_ms, timing)
    if kind in ("resolved", "resolved_unnotified"):
        return replace(incident, last_notification=None, pending_changes=0)
    if kind is not None:
        notified = LastNotification(incident.alert_id, incident.severity, now_ms, flapping)
        return replace(incident, last_notification=notified, pending_changes=0)
    ended_unnotified = (
        incident.pending_changes
        and not incident.last_notification
        and not incident.firing
        and not flapping
    )
    if ended_unnotified and _is_suppressed(incident, suppression):
        return replace(incident, pending_changes=0)
    return incident


def _reminder_due_ms(
    incident: IncidentState, suppression: Suppression, timing: NotificationTiming
) -> int:
    last = incident.last_notification
    # A flapping incident may be resolved although people were not notified of it.
    if last is None or not incident.firing or _is_suppressed(incident, suppression):
        return NEVER_MS
    return last.time_ms + timing.remind_after_ms


def _check_times_ms(
    incident: IncidentState, suppression: Suppression, now_ms: int, timing: NotificationTiming
) -> list[int]:
    """Return the future times at which a notice may become due without another alert."""
    if not incident.is_active:
        return []
    candidates = (
        _flapping_until_ms(incident, timing),
        suppression.silenced_until_ms or 0,
        _reminder_due_ms(incident, suppression, timing),
    )
    return [check_ms for check_ms in candidates if now_ms < check_ms < NEVER_MS]


def _notice_item(incident: IncidentState, kind: NoticeKind) -> NoticeItem:
    last = incident.last_notification
    severity = last.severity if kind == "resolved" and last else incident.severity
    return NoticeItem(
        kind=kind,
        alert_id=incident.alert_id,
        rule=incident.rule,
        subject=incident.subject,
        severity=severity,
        previous_severity=last.severity if last and last.severity != severity else None,
        start_time=incident.start_time,
        end_time=incident.end_time,
        summary=incident.summary,
        changes=incident.pending_changes,
    )


def _new_notice(
    site_id: str, items: list[NoticeItem], after: Sequence[IncidentState], now_ms: int
) -> Notice:
    still_open = [
        incident.last_notification.severity for incident in after if incident.last_notification
    ]
    return Notice(
        notice_id=new_notice_id(site_id, items, now_ms),
        site_id=site_id,
        created_time=to_text(now_ms),
        severity=highest_severity(still_open),
        open_count=len(still_open),
        items=items,
    )
