"""What people are told of a site: the records, and the same in words."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from events.records import Instant, Rule, Severity

Kind = Literal["firing", "escalated", "flapping", "reminder", "resolved", "passed"]
"""`escalated`: to a higher severity than was told. `flapping`: changes too often to tell each change. `reminder`:
still open. `passed`: began and ended before anybody was told."""

KINDS: tuple[Kind, ...] = ("escalated", "firing", "flapping", "reminder", "resolved", "passed")
OPEN_KINDS: frozenset[Kind] = frozenset(("firing", "escalated", "flapping", "reminder"))
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error", "critical")
MOST_LINES = 20
"""A storm's notice names so many and counts the others: mail and chat cut longer texts off anywhere."""


class Item(Struct, frozen=True):
    """One rule and subject in a notice.

    `alert_id` names the incident as `alerting list` does. `severity` is what people know after this notice, `was`
    what they knew before if that was another. `changes` is how many alerts this stands for.
    """

    kind: Kind
    alert_id: str
    rule: Rule
    subject: str
    severity: Severity
    was: Severity | None
    start_time: Instant
    end_time: Instant | None
    summary: str
    changes: int


class Notice(Struct, frozen=True):
    """One message about one site. `notice_id` stays the same however often it is sent.

    `open_count` is how many rules and subjects of the site people know to be open after it, `severity` the
    highest of those (`info` when there are none).
    """

    notice_id: str
    site_id: str
    made_time: Instant
    severity: Severity
    open_count: int
    items: list[Item]


def worst(severities: Iterable[Severity]) -> Severity:
    """Return the highest severity, `info` for none."""
    return max(severities, key=SEVERITIES.index, default="info")


def notice_id(site_id: str, items: Iterable[Item], made_ms: int) -> str:
    """Return 32 hex digits that are this notice's alone."""
    parts = (site_id, str(made_ms), *(item.alert_id for item in items))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def title(notice: Notice) -> str:
    """Return the notice in one line: `site-1: 2 firing, 1 resolved (worst open: critical)`."""
    counted = Counter(item.kind for item in notice.items)
    what = ", ".join(f"{counted[kind]} {kind}" for kind in KINDS if counted[kind])
    still = f"worst open: {notice.severity}" if notice.open_count else "nothing is open"
    return f"{notice.site_id}: {what} ({still})"


def body(notice: Notice) -> str:
    """Return the notice in lines, the worst first, at most `MOST_LINES` and how many more."""
    order = sorted(notice.items, key=lambda item: (KINDS.index(item.kind), -SEVERITIES.index(item.severity)))
    lines = [_line(item) for item in order[:MOST_LINES]]
    more = len(order) - MOST_LINES
    if more > 0:
        lines.append(f"... and {more} more: python -m alerting list")
    return "\n".join(lines)


def _line(item: Item) -> str:
    times = f"since {item.start_time}" if item.end_time is None else f"{item.start_time} to {item.end_time}"
    changes = f", {item.changes} changes" if item.changes > 1 else ""
    return (
        f"{item.kind.upper()} {item.severity} {item.rule} {item.subject}: {item.summary} "
        f"({times}{changes}, ID {item.alert_id[:8]})"
    )
