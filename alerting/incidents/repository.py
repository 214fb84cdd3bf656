"""Store incidents, commands and due notices in the database.

`alerting.incidents.state` and `alerting.incidents.notification_policy` decide; this module reads
what they need and writes what they return. Every function works inside the caller's transaction, or
on a read-only connection.
"""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from alerting.incidents import notification_policy
from alerting.incidents.state import (
    Ack,
    IncidentState,
    NotificationTiming,
    RecordPosition,
    Suppression,
    apply_alert,
    covering_ack,
)
from alerting.notifications.notice import Notice
from events.catalog import SITE_OUTAGE
from events.records import Alert, AlertCommand, Instant
from events.times import to_ms


def record_alert(
    db: sqlite3.Connection,
    alert: Alert,
    position: RecordPosition,
    now_ms: int,
    timing: NotificationTiming,
) -> str | None:
    """Apply a new alert; return the id of its incident, or None if the alert changes nothing."""
    before = load_incident(db, alert.rule, alert.subject)
    end_time = _read_end(db, alert, position)
    if before is not None and end_time is not None and before.end_time == end_time:
        before = replace(before, firing=True, end_time=None)  # this alert comes before that end
    after = apply_alert(before, alert, position, now_ms, timing)
    if after is None or after is before:
        if alert.state == "NORMAL":
            _save_unmatched_end(db, alert, position)
        return None
    if after.firing and end_time is not None:
        after = replace(after, firing=False, end_time=end_time)
    _save_incident(db, after)
    db.execute(
        "INSERT INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO UPDATE"
        " SET site_id = excluded.site_id, severity = excluded.severity,"
        " end_time = excluded.end_time, summary = excluded.summary",
        (
            after.alert_id,
            after.rule,
            after.subject,
            after.site_id,
            after.highest_severity,
            after.start_time,
            after.end_time,
            after.summary,
        ),
    )
    schedule_check(db, after.site_id, now_ms, timing)
    return after.alert_id


def _read_end(db: sqlite3.Connection, alert: Alert, position: RecordPosition) -> Instant | None:
    """Return the event time of a later `NORMAL` that was read first and ended no incident.

    It is there where partitions were added, and the subject's earlier alerts lie in another one.
    """
    row = db.execute(
        "SELECT partition, append_ms, event_time FROM unmatched_ends"
        " WHERE rule = ? AND subject = ?",
        (alert.rule, alert.subject),
    ).fetchone()
    if row is None or not position.is_before(RecordPosition(*row[:2])):
        return None
    return str(row[2])


def _save_unmatched_end(db: sqlite3.Connection, alert: Alert, position: RecordPosition) -> None:
    db.execute(
        "INSERT INTO unmatched_ends VALUES (?, ?, ?, ?, ?) ON CONFLICT (rule, subject) DO UPDATE"
        " SET partition = excluded.partition, append_ms = excluded.append_ms,"
        " event_time = excluded.event_time"
        " WHERE partition = excluded.partition OR append_ms <= excluded.append_ms",
        (alert.rule, alert.subject, position.partition, position.append_ms, alert.event_time),
    )


def record_command(
    db: sqlite3.Connection, command: AlertCommand, now_ms: int, timing: NotificationTiming
) -> None:
    """Store and apply an operator's command; a repeat changes nothing."""
    inserted = db.execute(
        "INSERT INTO commands (command_id, command, rule, subject, until_ms, alert_id, severity,"
        " by, time_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (command_id) DO NOTHING",
        (
            command.command_id,
            command.command,
            command.rule,
            command.subject,
            None if command.until is None else to_ms(command.until),
            command.alert_id,
            command.severity,
            command.by,
            to_ms(command.event_time),
        ),
    )
    if not inserted.rowcount:
        return
    incident = load_incident(db, command.rule, command.subject)
    if incident is not None:
        mark_changed(db, command.rule, command.subject)
        schedule_check(db, incident.site_id, now_ms, timing)
    is_site = db.execute(
        "SELECT 1 FROM site_schedule WHERE site_id = ?", (command.subject,)
    ).fetchone()
    if is_site:
        mark_site_changed(db, command.subject, command.rule)
        schedule_check(db, command.subject, now_ms, timing)


def schedule_check(
    db: sqlite3.Connection, site_id: str, now_ms: int, timing: NotificationTiming
) -> None:
    """Check a site after the group wait, but not before its group interval is over."""
    row = db.execute(
        "SELECT last_notice_ms, next_check_ms FROM site_schedule WHERE site_id = ?", (site_id,)
    ).fetchone()
    last_notice_ms, next_check_ms = row or (None, None)
    wanted_ms = _after_group_interval(now_ms + timing.group_wait_ms, last_notice_ms, now_ms, timing)
    if next_check_ms is None or wanted_ms < next_check_ms:
        db.execute(
            "INSERT OR REPLACE INTO site_schedule VALUES (?, ?, ?)",
            (site_id, last_notice_ms, wanted_ms),
        )


def _after_group_interval(
    wanted_ms: int, last_notice_ms: int | None, now_ms: int, timing: NotificationTiming
) -> int:
    if last_notice_ms is None:
        return wanted_ms
    # The clock may have been set back since the last notice.
    last_notice_ms = min(last_notice_ms, now_ms)
    return max(wanted_ms, last_notice_ms + timing.group_interval_ms)


def reschedule(db: sqlite3.Connection, now_ms: int, timing: NotificationTiming) -> None:
    """Check every site soon: the clock was set back, and the times of checks are too far ahead.

    No site is checked before its wait or its interval is over. A check for which nothing is due
    finds the right time of the next one.
    """
    latest_ms = now_ms + max(timing.group_wait_ms, timing.group_interval_ms)
    db.execute(
        "UPDATE site_schedule SET next_check_ms = ? WHERE next_check_ms > ?", (latest_ms, latest_ms)
    )


def create_due_notices(
    db: sqlite3.Connection, now_ms: int, timing: NotificationTiming, channels: Sequence[str]
) -> list[Notice]:
    """Create the notices that are due, and queue each for every channel."""
    due = db.execute(
        "SELECT site_id, last_notice_ms FROM site_schedule WHERE next_check_ms <= ?"
        " ORDER BY next_check_ms",
        (now_ms,),
    )
    notices = []
    for site_id, previous_notice_ms in due.fetchall():
        incidents = with_suppressions(db, _active_incidents(db, site_id), now_ms)
        decision = notification_policy.decide(site_id, incidents, now_ms, timing)
        for incident in decision.changed_incidents:
            _save_incident(db, incident)
        last_notice_ms = now_ms if decision.notice else previous_notice_ms
        if decision.notice is not None:
            _queue_notice(db, decision.notice, channels)
            notices.append(decision.notice)
        next_check_ms = (
            None
            if decision.next_check_ms is None
            else _after_group_interval(decision.next_check_ms, last_notice_ms, now_ms, timing)
        )
        db.execute(
            "UPDATE site_schedule SET last_notice_ms = ?, next_check_ms = ? WHERE site_id = ?",
            (last_notice_ms, next_check_ms, site_id),
        )
    return notices


def _queue_notice(db: sqlite3.Connection, notice: Notice, channels: Sequence[str]) -> None:
    text = msgspec.json.encode(notice).decode()
    db.execute(
        "INSERT INTO notices VALUES (?, ?, ?, ?)",
        (notice.notice_id, notice.site_id, notice.created_time, text),
    )
    db.executemany(
        "INSERT INTO outbox (channel, notice_id) VALUES (?, ?)",
        [(channel, notice.notice_id) for channel in channels],
    )


def load_incident(db: sqlite3.Connection, rule: str, subject: str) -> IncidentState | None:
    """Return the last incident of a rule and subject, or None if there was none."""
    row = db.execute(
        "SELECT state FROM incident_states WHERE rule = ? AND subject = ?", (rule, subject)
    ).fetchone()
    return None if row is None else _STATE_DECODER.decode(row[0])


def count_open_incidents(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many incidents are open, for each rule that has any."""
    rows = db.execute(
        "SELECT rule, count(*) FROM incident_states"
        " WHERE is_active AND json_extract(state, '$.firing') GROUP BY rule"
    )
    return dict(rows.fetchall())


def _active_incidents(db: sqlite3.Connection, site_id: str) -> list[IncidentState]:
    rows = db.execute(
        "SELECT state FROM incident_states WHERE site_id = ? AND is_active", (site_id,)
    )
    return [_STATE_DECODER.decode(text) for (text,) in rows]


def _save_incident(db: sqlite3.Connection, incident: IncidentState) -> None:
    db.execute(
        "INSERT OR REPLACE INTO incident_states VALUES (?, ?, ?, ?, ?)",
        (
            incident.rule,
            incident.subject,
            incident.site_id,
            int(incident.is_active),
            msgspec.json.encode(incident).decode(),
        ),
    )
    mark_changed(db, incident.rule, incident.subject)
    if incident.rule == SITE_OUTAGE:
        mark_site_changed(db, incident.subject)  # the outage inhibits the site's racks


def mark_changed(db: sqlite3.Connection, rule: str, subject: str) -> None:
    """Mark the last incident of a rule and subject to be published."""
    db.execute(
        "INSERT INTO incident_outbox (rule, subject) VALUES (?, ?)"
        " ON CONFLICT (rule, subject) DO UPDATE SET revision = revision + 1",
        (rule, subject),
    )


def mark_site_changed(db: sqlite3.Connection, site_id: str, rule: str | None = None) -> None:
    """Mark the open incidents of a site, of one rule or of all, to be published."""
    db.execute(
        "INSERT INTO incident_outbox (rule, subject)"
        " SELECT rule, subject FROM incident_states"
        " WHERE site_id = ? AND is_active AND (? IS NULL OR rule = ?)"
        " ON CONFLICT (rule, subject) DO UPDATE SET revision = revision + 1",
        (site_id, rule, rule),
    )


def with_suppressions(
    db: sqlite3.Connection, incidents: Iterable[IncidentState], now_ms: int
) -> list[tuple[IncidentState, Suppression]]:
    """Return each incident with what suppresses its notifications now."""
    silences = {
        (rule, subject): until_ms for rule, subject, until_ms, _ in active_silences(db, now_ms)
    }
    # The outage of a site inhibits the notifications about its racks.
    has_outage: dict[str, bool] = {}
    found = []
    for incident in incidents:
        silenced_until = (
            silences.get((incident.rule, subject))
            for subject in (incident.subject, incident.site_id)
        )
        if incident.site_id not in has_outage:
            outage = load_incident(db, SITE_OUTAGE, incident.site_id)
            has_outage[incident.site_id] = outage is not None and outage.firing
        suppression = Suppression(
            silenced_until_ms=max((each for each in silenced_until if each), default=None),
            ack=covering_ack(incident, acks_of(db, incident.rule, incident.subject)),
            inhibited=incident.rule != SITE_OUTAGE and has_outage[incident.site_id],
        )
        found.append((incident, suppression))
    return found


def active_silences(db: sqlite3.Connection, now_ms: int) -> list[tuple[str, str, int, str]]:
    """Return rule, subject, end and author of each silence that has not ended.

    The last `silence` or `unsilence` of a rule and subject counts.
    """
    rows = db.execute(
        "SELECT rule, subject, until_ms, by FROM commands"
        " WHERE until_ms > ? AND command = 'silence' AND number IN"
        " (SELECT max(number) FROM commands WHERE command <> 'ack' GROUP BY rule, subject)"
        " ORDER BY until_ms",
        (now_ms,),
    )
    return rows.fetchall()


def acks_of(db: sqlite3.Connection, rule: str, subject: str) -> list[Ack]:
    """Return the acknowledgements of a rule and subject, in the order in which they were read."""
    rows = db.execute(
        "SELECT alert_id, severity, time_ms, by FROM commands"
        " WHERE command = 'ack' AND rule = ? AND subject = ? ORDER BY number",
        (rule, subject),
    )
    return [Ack(*row) for row in rows]


_STATE_DECODER = msgspec.json.Decoder(IncidentState)
