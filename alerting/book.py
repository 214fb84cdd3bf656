"""The book of lives: `alerting.life` and `alerting.telling` applied to what the database holds, a record at a time.

Every function works inside the caller's transaction, or on a connection that only reads.
"""

import sqlite3
from collections.abc import Iterable, Sequence

import msgspec

from alerting import life as rules
from alerting import telling
from alerting.life import Ack, Hold, Life, Place, Times
from alerting.notices import Notice
from events.records import Alert, AlertCommand
from events.times import to_ms

OUTAGE = "site-outage"
"""The rule whose incidents hold back what the site's racks would have people told."""


def take_alert(db: sqlite3.Connection, alert: Alert, place: Place, now_ms: int, times: Times) -> str | None:
    """Enter a new alert; return the incident that it belongs to, None when it changes nothing."""
    before = life_of(db, alert.rule, alert.subject)
    after = rules.taken(before, alert, place, now_ms, times)
    if after is None or after is before:
        return None
    _save(db, after)
    db.execute(
        "INSERT INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO UPDATE"
        " SET site_id = excluded.site_id, severity = excluded.severity, end_time = excluded.end_time,"
        " summary = excluded.summary",
        (
            after.alert_id,
            after.rule,
            after.subject,
            after.site_id,
            after.worst,
            after.start_time,
            after.end_time,
            after.summary,
        ),
    )
    look_at(db, after.site_id, now_ms, times)
    return after.alert_id


def take_command(db: sqlite3.Connection, command: AlertCommand, now_ms: int, times: Times) -> bool:
    """Enter what a person did; return whether it is new. One that is sent twice counts once."""
    inserted = db.execute(
        "INSERT INTO commands (command_id, command, rule, subject, until_ms, alert_id, severity, by, time_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (command_id) DO NOTHING",
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
        return False
    life = life_of(db, command.rule, command.subject)
    if life is not None:
        look_at(db, life.site_id, now_ms, times)
    if db.execute("SELECT 1 FROM sites WHERE site_id = ?", (command.subject,)).fetchone():
        look_at(db, command.subject, now_ms, times)
    return True


def look_at(db: sqlite3.Connection, site_id: str, now_ms: int, times: Times) -> None:
    """Have a site looked at after the wait, and not before the interval since its last notice is over."""
    row = db.execute("SELECT last_ms, due_ms FROM sites WHERE site_id = ?", (site_id,)).fetchone()
    last_ms, due_ms = row or (None, None)
    wanted = _not_too_soon(now_ms + times.group_wait_ms, last_ms, now_ms, times)
    if due_ms is None or wanted < due_ms:
        db.execute("INSERT OR REPLACE INTO sites VALUES (?, ?, ?)", (site_id, last_ms, wanted))


def _not_too_soon(wanted_ms: int, last_ms: int | None, now_ms: int, times: Times) -> int:
    if last_ms is None:
        return wanted_ms
    return max(wanted_ms, min(last_ms, now_ms) + times.group_interval_ms)  # min: clocks are put back, too


def flush(db: sqlite3.Connection, now_ms: int, times: Times, routes: Sequence[str]) -> list[Notice]:
    """Make the notices that are due, and put each into the outbox of every route."""
    due = db.execute("SELECT site_id, last_ms FROM sites WHERE due_ms <= ? ORDER BY due_ms", (now_ms,))
    notices = []
    for site_id, before_ms in due.fetchall():
        result = telling.flush(site_id, with_holds(db, _watched(db, site_id), now_ms), now_ms, times)
        for life in result.lives:
            _save(db, life)
        last_ms = now_ms if result.notice else before_ms
        if result.notice is not None:
            _post(db, result.notice, routes)
            notices.append(result.notice)
        due_ms = None if result.next_ms is None else _not_too_soon(result.next_ms, last_ms, now_ms, times)
        db.execute("UPDATE sites SET last_ms = ?, due_ms = ? WHERE site_id = ?", (last_ms, due_ms, site_id))
    return notices


def _post(db: sqlite3.Connection, notice: Notice, routes: Sequence[str]) -> None:
    db.execute(
        "INSERT INTO notices VALUES (?, ?, ?, ?)",
        (notice.notice_id, notice.site_id, notice.made_time, msgspec.json.encode(notice).decode()),
    )
    db.executemany(
        "INSERT INTO outbox (route, notice_id) VALUES (?, ?)",
        [(route, notice.notice_id) for route in routes],
    )


def life_of(db: sqlite3.Connection, rule: str, subject: str) -> Life | None:
    """Return the life of a subject under a rule, None when it never fired."""
    row = db.execute("SELECT life FROM lives WHERE rule = ? AND subject = ?", (rule, subject)).fetchone()
    return None if row is None else _LIFE.decode(row[0])


def _watched(db: sqlite3.Connection, site_id: str) -> list[Life]:
    rows = db.execute("SELECT life FROM lives WHERE site_id = ? AND needs_attention", (site_id,))
    return [_LIFE.decode(text) for (text,) in rows]


def firing(db: sqlite3.Connection) -> list[Life]:
    """Return every life that is firing."""
    rows = db.execute("SELECT life FROM lives WHERE needs_attention")
    return [life for (text,) in rows if (life := _LIFE.decode(text)).firing]


def _save(db: sqlite3.Connection, life: Life) -> None:
    text = msgspec.json.encode(life).decode()
    row = (life.rule, life.subject, life.site_id, int(life.needs_attention), text)
    db.execute("INSERT OR REPLACE INTO lives VALUES (?, ?, ?, ?, ?)", row)


def with_holds(db: sqlite3.Connection, lives: Iterable[Life], now_ms: int) -> list[tuple[Life, Hold]]:
    """Return lives, each with what keeps people from being told of it now."""
    silences = {(rule, subject): until_ms for rule, subject, until_ms, _ in silences_at(db, now_ms)}
    outages: dict[str, bool] = {}
    found = []
    for life in lives:
        own = (silences.get((life.rule, name)) for name in (life.subject, life.site_id))
        if life.site_id not in outages:
            outage = life_of(db, OUTAGE, life.site_id)
            outages[life.site_id] = outage is not None and outage.firing
        hold = Hold(
            silenced_until_ms=max((until_ms for until_ms in own if until_ms), default=None),
            ack=rules.acknowledged(life, acks_of(db, life.rule, life.subject)),
            inhibited=life.rule != OUTAGE and outages[life.site_id],
        )
        found.append((life, hold))
    return found


def silences_at(db: sqlite3.Connection, now_ms: int) -> list[tuple[str, str, int, str]]:
    """Return rule, subject, end and author of each silence that has not ended; the last command counts."""
    rows = db.execute(
        "SELECT rule, subject, until_ms, by FROM commands WHERE until_ms > ? AND command = 'silence' AND number IN"
        " (SELECT max(number) FROM commands WHERE command <> 'ack' GROUP BY rule, subject)"
        " ORDER BY until_ms",
        (now_ms,),
    )
    return rows.fetchall()


def acks_of(db: sqlite3.Connection, rule: str, subject: str) -> list[Ack]:
    """Return what people acknowledged of a subject under a rule, in the order in which it was taken."""
    rows = db.execute(
        "SELECT alert_id, severity, time_ms, by FROM commands"
        " WHERE command = 'ack' AND rule = ? AND subject = ? ORDER BY number",
        (rule, subject),
    )
    return [Ack(*row) for row in rows]


def forget_untold(db: sqlite3.Connection) -> None:
    """Count as told all that came to its end: for alerts that were logged before there were notices."""
    for (text,) in db.execute("SELECT life FROM lives WHERE needs_attention").fetchall():
        life = _LIFE.decode(text)
        if not life.firing:
            _save(db, msgspec.structs.replace(life, untold=0))


_LIFE = msgspec.json.Decoder(Life)
