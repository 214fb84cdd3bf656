"""Define a notice about the incidents of one site, as a record and as text."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

from events.catalog import RuleName
from events.records import Instant, Severity

NoticeKind = Literal[
    "escalated", "firing", "flapping", "reminder", "resolved", "resolved_unnotified"
]
"""Why an incident is in a notice, the most urgent first.

- `escalated`: its severity is higher than in the last notification.
- `flapping`: it changes too often to notify people of each change.
- `reminder`: it is still open.
- `resolved_unnotified`: it began and ended before people were notified.
"""

KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
"""All kinds, the most urgent first."""

OPEN_KINDS: frozenset[NoticeKind] = frozenset(("firing", "escalated", "flapping", "reminder"))
"""The kinds of incidents that are open."""

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error", "critical")
"""All severities, the lowest first."""

MAX_ITEM_LINES = 20
"""How many incidents a text lists: mail and chat cut longer texts off anywhere."""


class NoticeItem(Struct, frozen=True):
    """One incident in a notice.

    - `alert_id`: the id of the incident, as in `alerting list`.
    - `severity`: the severity that people know after this notice.
    - `previous_severity`: the severity in the last notification, if it was another one.
    - `changes`: how many alerts this item stands for.
    """

    kind: NoticeKind
    alert_id: str
    rule: RuleName
    subject: str
    severity: Severity
    previous_severity: Severity | None
    start_time: Instant
    end_time: Instant | None
    summary: str
    changes: int


class Notice(Struct, frozen=True):
    """One message about one site.

    - `notice_id`: stays the same however often the notice is sent.
    - `open_count`: how many incidents of the site people believe to be open after it.
    - `severity`: the highest severity of those, `info` if there are none.
    """

    notice_id: str
    site_id: str
    created_time: Instant
    severity: Severity
    open_count: int
    items: list[NoticeItem]


def highest_severity(severities: Iterable[Severity]) -> Severity:
    """Return the highest severity, `info` if there are none."""
    return max(severities, key=SEVERITIES.index, default="info")


def new_notice_id(site_id: str, items: Iterable[NoticeItem], created_ms: int) -> str:
    """Return the notice's id: 32 hex digits of a hash of its site, time and incidents."""
    parts = (site_id, str(created_ms), *(item.alert_id for item in items))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def title(notice: Notice) -> str:
    """Return one line such as `site-1: 2 firing (highest open severity: critical)`."""
    counts = Counter(item.kind for item in notice.items)
    changes = ", ".join(f"{counts[kind]} {_kind_text(kind)}" for kind in KINDS if counts[kind])
    still_open = (
        f"highest open severity: {notice.severity}" if notice.open_count else "nothing is open"
    )
    return f"{notice.site_id}: {changes} ({still_open})"


def body(notice: Notice) -> str:
    """Return the notice in lines, the most urgent first: at most `MAX_ITEM_LINES` incidents."""
    ordered = sorted(
        notice.items, key=lambda item: (KINDS.index(item.kind), -SEVERITIES.index(item.severity))
    )
    lines = [_item_line(item) for item in ordered[:MAX_ITEM_LINES]]
    omitted = len(ordered) - MAX_ITEM_LINES
    if omitted > 0:
        lines.append(f"... and {omitted} more: python -m alerting list")
    return "\n".join(lines)


def _kind_text(kind: NoticeKind) -> str:
    return kind.replace("_", " ")


def _item_line(item: NoticeItem) -> str:
    period = (
        f"since {item.start_time}"
        if item.end_time is None
        else f"{item.start_time} to {item.end_time}"
    )
    changes = f", {item.changes} changes" if item.changes > 1 else ""
    return (
        f"{_kind_text(item.kind).upper()} {item.severity} {item.rule} {item.subject}: "
        f"{item.summary} ({period}{changes}, ID {item.alert_id[:8]})"
    )
