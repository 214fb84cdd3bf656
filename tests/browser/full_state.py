"""Fill all that the dashboard keeps up to its limits, through the topics.

Each record has a key of its own, so that the dashboard looks at all of them: of readings and
windows, it otherwise takes the newest of each key.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import requests

from dashboard.alerts import ALERT_IDS_REMEMBERED, ALERTS_PER_RACK
from dashboard.clickstream import IDS_REMEMBERED, USERS_REMEMBERED
from dashboard.dead_letters import DEAD_LETTER_CHARACTERS, DEAD_LETTERS_KEPT
from dashboard.dead_letters import IDS_REMEMBERED as DEAD_LETTER_IDS_REMEMBERED
from dashboard.incidents import MAX_INCIDENTS, MAX_TEXT
from dashboard.racks import READINGS_PER_RACK
from dashboard.windows import FLEET_WINDOWS, WINDOWS_PER_RACK
from demo.dashboard_figures import read_snapshot
from events.constants import FLEET_SCOPE, WINDOW_SLIDE
from events.records import (
    ActionCount,
    AdAttribution,
    Alert,
    DeadLetter,
    Evidence,
    Incident,
    InventoryRack,
    RackTemperature,
    UserSession,
    UserTotal,
    encode,
)
from events.times import duration_ms, to_text
from events.topics import (
    ACTION_COUNTS,
    AD_ATTRIBUTION,
    ALERTS,
    DEAD_LETTERS,
    INCIDENTS,
    RACK_READINGS,
    RACK_TEMPERATURE,
    USER_SESSIONS,
    USER_TOTALS,
)
from tests.browser.dashboard import RunningDashboard
from tests.builders import reading
from tests.support import Kafka

ACTION_WINDOWS = 2_500
Records = Iterator[tuple[str, bytes]]


def fill(kafka: Kafka, racks: list[InventoryRack], now_ms: int) -> None:
    """Send the records that fill everything; a dashboard must be running."""
    # A rack's readings come in their order only from one partition, as each has another key.
    kafka.send(RACK_READINGS, readings(racks, now_ms), partition=0)
    for topic, records in (
        (RACK_TEMPERATURE, windows(racks, now_ms)),
        (ALERTS, alerts(racks, now_ms)),
        (INCIDENTS, incidents(racks, now_ms)),
        (DEAD_LETTERS, dead_letters(now_ms)),
        (AD_ATTRIBUTION, attributions(now_ms)),
        (ACTION_COUNTS, action_counts(now_ms)),
        (USER_SESSIONS, sessions(now_ms)),
        (USER_TOTALS, totals(now_ms)),
    ):
        kafka.send(topic, records)


def counts_of_each_kind(dashboard: RunningDashboard, racks: list[InventoryRack]) -> dict[str, int]:
    """Return how much of each kind the dashboard has taken."""
    snapshot = read_snapshot(dashboard.url)
    clickstream = snapshot["clickstream"]
    first, last = (
        requests.get(f"{dashboard.url}api/rack", {"rack_id": rack.rack_id}, timeout=10).json()
        for rack in (racks[0], racks[-1])
    )
    return {
        "readings of the first rack": len(first["readings"]),
        "readings of the last rack": len(last["readings"]),
        "windows of the last rack": len(last["windows"]),
        "alerts of the last rack": len(last["alerts"]),
        "windows of the fleet": len(snapshot["windows"]["fleet"]),
        "alerts": sum(snapshot["alerts"].values()),
        "incidents": len(snapshot["incidents"]),
        "dead letters": snapshot["pipeline"]["dead_letters"],
        "clicked impressions": clickstream["clicked"],
        "sessions": clickstream["sessions"],
        "users": clickstream["totals"],
        "actions": sum(clickstream["actions"].values()),
    }


def full() -> dict[str, int]:
    """Return what `counts_of_each_kind` returns once everything has been taken."""
    return {
        "readings of the first rack": READINGS_PER_RACK,
        "readings of the last rack": READINGS_PER_RACK,
        "windows of the last rack": WINDOWS_PER_RACK,
        "alerts of the last rack": ALERTS_PER_RACK,
        "windows of the fleet": FLEET_WINDOWS,
        "alerts": ALERT_IDS_REMEMBERED,
        "incidents": MAX_INCIDENTS,
        "dead letters": DEAD_LETTER_IDS_REMEMBERED,
        "clicked impressions": IDS_REMEMBERED,
        "sessions": IDS_REMEMBERED,
        "users": USERS_REMEMBERED,
        "actions": ACTION_WINDOWS,
    }


def readings(racks: list[InventoryRack], now_ms: int) -> Records:
    """Yield a full history of each rack, a reading a second until now."""
    for number in range(READINGS_PER_RACK):
        at = to_text(now_ms - 1000 * (READINGS_PER_RACK - number))
        for rack in racks:
            record = reading(
                number, 70.0 + number % 10, rack.rack_id, event_time=at, site_id=rack.site_id
            )
            yield record.event_id, encode(record)


def windows(racks: list[InventoryRack], now_ms: int) -> Records:
    """Yield all windows that are kept of the fleet and of each rack."""
    slide_ms = duration_ms(WINDOW_SLIDE)
    for scope in (FLEET_SCOPE, *(rack.rack_id for rack in racks)):
        count = FLEET_WINDOWS if scope == FLEET_SCOPE else WINDOWS_PER_RACK
        for number in range(count):
            end = now_ms - now_ms % slide_ms - number * slide_ms
            row = RackTemperature(
                scope=scope,
                window_start=to_text(end - 2 * slide_ms),
                window_end=to_text(end),
                reading_count=3_000,
                temperature_c_avg=71.23456789012345,
                temperature_c_min=56.5,
                temperature_c_max=96.25,
            )
            yield f"{scope}|{row.window_start}|{row.window_end}", encode(row)


def alerts(racks: list[InventoryRack], now_ms: int) -> Records:
    """Yield as many alerts as are recognised when they come again; fewer are kept."""
    for number in range(ALERT_IDS_REMEMBERED):
        later = ALERT_IDS_REMEMBERED - 1 - number
        rack, at = racks[-1 - later // ALERTS_PER_RACK % len(racks)], to_text(now_ms)
        evidence = [
            Evidence(
                event_id=f"{rack.rack_id}/{back}", sequence=back, event_time=at, temperature_c=96.5
            )
            for back in range(3)
        ]
        alert = Alert(
            alert_id=f"{number:032x}",
            rule="rack-overheating",
            subject=rack.rack_id,
            site_id=rack.site_id,
            state="WARNING" if number % 2 else "NORMAL",
            severity="error" if number % 2 else "info",
            event_time=at,
            detected_time=at,
            summary=f"The last three readings of {rack.rack_id} are all at or above 90 °C.",
            evidence=evidence,
        )
        yield rack.rack_id, encode(alert)


def incidents(racks: list[InventoryRack], now_ms: int) -> Records:
    """Yield all incidents that are kept, a fifth of them open, with the longest texts."""
    for number in range(MAX_INCIDENTS):
        is_open = number < MAX_INCIDENTS // 5
        rack, at = racks[number % len(racks)], to_text(now_ms)
        subject = rack.rack_id if is_open else f"gone-{number:06d}"
        incident = Incident(
            alert_id=f"{number:032x}",
            status="firing" if is_open else "resolved",
            severity="error",
            rule="rack-overheating",
            subject=subject,
            site_id=rack.site_id,
            start_time=at,
            end_time=None if is_open else at,
            repeats=0,
            acknowledged_by=None,
            silenced_until=None,
            inhibited=False,
            flapping=False,
            summary="x" * MAX_TEXT,
            last_alert_id=f"{number:032x}",
        )
        yield f"rack-overheating|{subject}", encode(incident)


def dead_letters(now_ms: int) -> Records:
    """Yield as many dead letters as are recognised; those that are kept have the longest texts."""
    long_from = DEAD_LETTER_IDS_REMEMBERED - DEAD_LETTERS_KEPT
    for number in range(DEAD_LETTER_IDS_REMEMBERED):
        text = "x" * (DEAD_LETTER_CHARACTERS if number >= long_from else 10)
        dead_letter = DeadLetter(
            source_topic="rack-readings",
            partition=0,
            offset=number,
            reason="unreadable",
            value=text,
            value_base64=None,
            value_size=len(text),
            error=text,
            seen_time=to_text(now_ms),
        )
        yield str(number), encode(dead_letter)


def attributions(now_ms: int) -> Records:
    """Yield as many clicked impressions as are recognised when they come again."""
    at = to_text(now_ms)
    for number in range(IDS_REMEMBERED):
        row = AdAttribution(
            impression_id=f"filled-{number}",
            ad_id="ad-1",
            user_id="user-1",
            impression_time=at,
            click_id=f"click-{number}",
            click_time=at,
            seconds_to_click=1.0,
        )
        yield row.impression_id, encode(row)


def action_counts(now_ms: int) -> Records:
    """Yield windows of one action, more than are kept."""
    for number in range(ACTION_WINDOWS):
        row = ActionCount(
            window_start=to_text(now_ms - 600_000 * (number + 1)),
            window_end=to_text(now_ms - 600_000 * number),
            action="view",
            user_id=None,
            action_count=1,
        )
        yield str(number), encode(row)


def sessions(now_ms: int) -> Records:
    """Yield as many sessions as are recognised when they come again."""
    at = to_text(now_ms)
    for number in range(IDS_REMEMBERED):
        row = UserSession(
            user_id=f"filled-{number}",
            session_start=at,
            session_end=at,
            action_count=3,
            amount_total=Decimal("12.34"),
        )
        yield row.user_id, encode(row)


def totals(now_ms: int) -> Records:
    """Yield a total of as many users as are remembered."""
    for number in range(USERS_REMEMBERED):
        fields: dict[str, Any] = {"event_time": to_text(now_ms), "purchase_count": 3}
        row = UserTotal(user_id=f"filled-{number}", amount_total=Decimal("1234.56"), **fields)
        yield row.user_id, encode(row)
