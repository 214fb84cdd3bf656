"""Incidents as tables and stories on a person's terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from alerting.durations import to_duration_text
from alerting.life import Status
from alerting.lines import COLOURS, visible
from alerting.views import Incident, Silence, Story
from events.times import to_ms

STATUS_COLOURS = {
    Status.FIRING: "bold red",
    Status.ACKNOWLEDGED: "yellow",
    Status.SILENCED: "blue",
    Status.RESOLVED: "green",
}
WIDE = 200
"""Columns where the output is no terminal: nothing is broken or cut there."""


def console() -> Console:
    """Return a console for the standard output."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=WIDE, soft_wrap=True)


def incident_table(incidents: Iterable[Incident], now_ms: int) -> Table:
    """Return one line per incident: ID, state, severity, rule, subject, site, since, how long, repeats, remarks."""
    table = _table("ID", "STATE", "SEVERITY", "RULE", "SUBJECT", "SITE", "SINCE", "FOR", "REPEATS", "REMARKS")
    for each in incidents:
        end_ms = now_ms if each.end_time is None else to_ms(each.end_time)
        table.add_row(
            each.alert_id[:8],
            Text(each.status, STATUS_COLOURS[each.status]),
            Text(each.severity, COLOURS[each.severity]),
            each.rule,
            Text(visible(each.subject)),
            Text(visible(each.site_id)),
            _second(each.start_time),
            to_duration_text(end_ms - to_ms(each.start_time)),
            str(each.repeats),
            Text(visible(remarks(each))),
        )
    return table


def silence_table(silences: Sequence[Silence], now_ms: int) -> Table:
    """Return one line per silence: rule, subject, until, how long that is, by whom."""
    table = _table("SILENCED RULE", "SUBJECT", "UNTIL", "LEFT", "BY")
    for each in silences:
        left = to_duration_text(to_ms(each.until) - now_ms)
        table.add_row(
            each.rule, Text(visible(each.subject)), _second(each.until), left, Text(visible(each.by))
        )
    return table


def remarks(incident: Incident) -> str:
    """Return what else there is to say of an incident, in a few words."""
    found = []
    if incident.acknowledged_by is not None:
        found.append(f"by {incident.acknowledged_by}")
    if incident.silenced_until is not None:
        found.append(f"until {_second(incident.silenced_until)}")
    if incident.inhibited:
        found.append("held back by the site's outage")
    if incident.flapping:
        found.append("flapping")
    return ", ".join(found)


def story_lines(story: Story, now_ms: int) -> Iterable[Text]:
    """Return all that is known of an incident, for reading from top to bottom."""
    incident = story.incident
    end_ms = now_ms if incident.end_time is None else to_ms(incident.end_time)
    lasted = to_duration_text(end_ms - to_ms(incident.start_time))
    facts = [
        ("ID", incident.alert_id),
        ("state", f"{incident.status} {remarks(incident)}".strip()),
        ("severity", incident.severity),
        ("rule", incident.rule),
        ("subject", f"{incident.subject} at {incident.site_id}"),
        ("start", incident.start_time),
        ("end", incident.end_time or "-"),
        ("lasted", lasted),
        ("repeats", str(incident.repeats)),
    ]
    for name, value in facts:
        yield Text.assemble((f"{name:<9} ", "dim"), visible(value))
    for alert in story.alerts:
        yield Text(f"\n{alert.event_time} {alert.state} {alert.severity}: {visible(alert.summary)}")
        for reading in alert.evidence:
            yield Text(
                f"  {reading.event_time}  sequence {reading.sequence}  {reading.temperature_c:.2f} °C  "
                f"event {visible(reading.event_id)}"
            )
    if story.notices:
        yield Text("\nNotices:")
    for sent in story.notices:
        routes = ", ".join(f"{route}: {outcome}" for route, outcome in sorted(sent.routes.items()))
        yield Text(f"  {sent.made_time} {sent.kind}  {visible(routes) or 'no route is set'}")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _second(instant: str) -> str:
    return instant[:19] + "Z"
