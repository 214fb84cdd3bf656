"""Render incidents as tables and texts for a terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from alerting.alert_log import SEVERITY_COLOURS, printable
from alerting.cli.queries import IncidentDetails, Silence
from events.durations import to_duration_text
from events.records import Incident, IncidentStatus
from events.times import to_ms, to_text

STATUS_COLOURS: dict[IncidentStatus, str] = {
    "firing": "bold red",
    "acknowledged": "yellow",
    "silenced": "blue",
    "resolved": "green",
}
WIDE = 130
"""How many columns a terminal needs for the table with all fields."""
FILE_WIDTH = 200
"""The width of output that does not go to a terminal; longer lines are neither wrapped nor cut."""


def console() -> Console:
    """Return a console for the standard output."""
    found = Console(highlight=False)
    if found.is_terminal:
        return found
    return Console(highlight=False, width=FILE_WIDTH, soft_wrap=True)


def overview(
    incidents: Sequence[Incident], silences: Sequence[Silence], now_ms: int, size: ConsoleDimensions
) -> Group:
    """Return what `list --watch` shows: as many incidents and silences as a terminal has room."""
    shown_silences = silences[: size.height // 4]
    lines_left = size.height - len(shown_silences) - 6  # titles, empty lines, what was left out
    lines_per_incident = 1 if size.width >= WIDE else 2
    shown = incidents[: max(1, lines_left // lines_per_incident)]
    title = (
        f"Open incidents: {len(incidents)}. Silences: {len(silences)}. "
        f"At {_seconds_text(to_text(now_ms))}; Ctrl-C ends."
    )
    parts: list[RenderableType] = [Text(title, "bold", no_wrap=True, overflow="ellipsis")]
    if shown:
        parts.append(incident_table(shown, now_ms, size.width))
    if len(shown) < len(incidents):
        parts.append(Text(f"... and {len(incidents) - len(shown)} older incidents"))
    if shown_silences:
        parts += [Text(), silence_table(shown_silences, now_ms)]
    return Group(*parts)


def incident_table(incidents: Iterable[Incident], now_ms: int, width: int) -> Table:
    """Return a table with one row per incident; a narrow one has fewer fields and wraps lines."""
    return (_wide_table if width >= WIDE else _narrow_table)(incidents, now_ms)


def _wide_table(incidents: Iterable[Incident], now_ms: int) -> Table:
    table = _table(
        "ID", "STATE", "SEVERITY", "RULE", "SUBJECT", "SITE", "SINCE", "FOR", "REPEATS", "REMARKS"
    )
    for each in incidents:
        table.add_row(
            Text(printable(each.alert_id[:8])),
            Text(each.status, STATUS_COLOURS[each.status]),
            Text(each.severity, SEVERITY_COLOURS[each.severity]),
            each.rule,
            Text(printable(each.subject)),
            Text(printable(each.site_id)),
            _seconds_text(each.start_time),
            to_duration_text(_duration_ms(each, now_ms)),
            str(each.repeats),
            Text(printable(remarks(each, _until_text(each)))),
        )
    return table


def _narrow_table(incidents: Iterable[Incident], now_ms: int) -> Table:
    table = _table("ID", "STATE", "SEVERITY", "RULE", "FOR")
    table.add_column("SUBJECT", overflow="fold")
    for each in incidents:
        until = each.silenced_until
        time_left = "" if until is None else f"{to_duration_text(to_ms(until) - now_ms)} left"
        subject = f"{each.subject} at {each.site_id}" if each.site_id != each.subject else ""
        details = (subject or each.subject, remarks(each, time_left))
        table.add_row(
            Text(printable(each.alert_id[:8])),
            Text(each.status, STATUS_COLOURS[each.status]),
            Text(each.severity, SEVERITY_COLOURS[each.severity]),
            each.rule,
            to_duration_text(_duration_ms(each, now_ms)),
            Text(printable(", ".join(filter(None, details)))),
        )
    return table


def silence_table(silences: Sequence[Silence], now_ms: int) -> Table:
    """Return a table with one row per silence."""
    table = _table("SILENCED RULE", "SUBJECT", "UNTIL", "LEFT", "BY")
    for each in silences:
        table.add_row(
            each.rule,
            Text(printable(each.subject)),
            _seconds_text(each.until),
            to_duration_text(to_ms(each.until) - now_ms),
            Text(printable(each.by)),
        )
    return table


def remarks(incident: Incident, silence_end: str) -> str:
    """Return who acknowledged an incident, when its silence ends, and what else applies."""
    found = []
    if incident.acknowledged_by is not None:
        found.append(f"by {incident.acknowledged_by}")
    if silence_end:
        found.append(silence_end)
    if incident.inhibited:
        found.append("inhibited by the site's outage")
    if incident.flapping:
        found.append("flapping")
    return ", ".join(found)


def details_lines(details: IncidentDetails, now_ms: int) -> Iterable[Text]:
    """Yield lines about an incident, its alerts with their evidence, and its notices."""
    incident = details.incident
    fields = [
        ("ID", incident.alert_id),
        ("state", f"{incident.status} {remarks(incident, _until_text(incident))}".strip()),
        ("severity", incident.severity),
        ("rule", incident.rule),
        ("subject", f"{incident.subject} at {incident.site_id}"),
        ("start", incident.start_time),
        ("end", incident.end_time or "-"),
        ("duration", to_duration_text(_duration_ms(incident, now_ms))),
        ("repeats", str(incident.repeats)),
    ]
    for name, value in fields:
        yield Text.assemble((f"{name:<9} ", "dim"), printable(value))
    for alert in details.alerts:
        yield Text(
            f"\n{alert.event_time} {alert.state} {alert.severity}: {printable(alert.summary)}"
        )
        for reading in alert.evidence:
            yield Text(
                f"  {reading.event_time}  sequence {reading.sequence}"
                f"  {reading.temperature_c:.2f} °C  event {printable(reading.event_id)}"
            )
    if details.notices:
        yield Text("\nNotices:")
    for notice in details.notices:
        outcomes = ", ".join(
            f"{channel}: {outcome}" for channel, outcome in sorted(notice.channels.items())
        )
        yield Text(
            f"  {notice.created_time} {notice.kind}  {printable(outcomes) or 'no channel is set'}"
        )


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _duration_ms(incident: Incident, now_ms: int) -> int:
    end_ms = now_ms if incident.end_time is None else to_ms(incident.end_time)
    return end_ms - to_ms(incident.start_time)


def _until_text(incident: Incident) -> str:
    until = incident.silenced_until
    return "" if until is None else f"until {_seconds_text(until)}"


def _seconds_text(instant: str) -> str:
    return instant[:19] + "Z"
