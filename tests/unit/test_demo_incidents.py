"""Which incidents the verdict expects of alerts, and which differences it finds."""

from typing import Any

import pytest

from demo.comparison import Row
from demo.incidents import compare_incidents
from events.times import to_ms, to_text

T0 = to_ms("2026-11-21T06:26:00.000Z")
DAY_MS = 86_400_000


def at(minute: float) -> str:
    return to_text(T0 + round(60_000 * minute))


def alert(name: str, minute: float, state: str = "WARNING", **changes: Any) -> dict[str, Any]:
    """Return an alert that was detected a minute after its time."""
    row = {
        "alert_id": name,
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-1",
        "state": state,
        "severity": "error" if state == "WARNING" else "info",
        "event_time": at(minute),
        "detected_time": at(minute + 1),
        "summary": f"alert {name}",
    }
    return row | changes


def incident(first: str, start: float, end: float | None = None, **changes: Any) -> dict[str, Any]:
    row = {
        "alert_id": first,
        "status": "firing" if end is None else "resolved",
        "severity": "error",
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-1",
        "start_time": at(start),
        "end_time": None if end is None else at(end),
        "repeats": 0,
        "acknowledged_by": None,
        "silenced_until": None,
        "inhibited": False,
        "flapping": False,
        "summary": f"alert {first}",
        "last_alert_id": first,
    }
    return row | changes


def differences(alerts: list[Row], actual: list[Row], minute: float = 60) -> list[str]:
    compared = compare_incidents(alerts, actual, to_ms(at(minute)))
    return [*compared.missing, *compared.wrong]


OTHER: dict[str, Any] = {"rule": "site-outage", "subject": "site-1"}
CASES: dict[str, tuple[list[Row], list[Row]]] = {
    "opened": ([alert("a", 0)], [incident("a", 0)]),
    "resolved": (
        [alert("a", 0), alert("b", 2, "NORMAL")],
        [incident("a", 0, 2, last_alert_id="b")],
    ),
    "NORMAL without an incident": ([alert("a", 0, "NORMAL")], []),
    "NORMAL twice": (
        [alert("a", 0), alert("b", 2, "NORMAL"), alert("c", 3, "NORMAL")],
        [incident("a", 0, 2, last_alert_id="b")],
    ),
    "opened again": (
        [alert("a", 0), alert("b", 2, "NORMAL"), alert("c", 5)],
        [incident("c", 5)],
    ),
    "repeats": (
        [alert("a", 0), alert("b", 2, "NORMAL"), alert("a", 0), alert("b", 2, "NORMAL")],
        [incident("a", 0, 2, last_alert_id="b", repeats=2)],
    ),
    "escalated, and lower again": (
        [alert("a", 0), alert("b", 1, severity="critical"), alert("c", 2, severity="warning")],
        [incident("a", 0, severity="warning", summary="alert c", last_alert_id="c")],
    ),
    "resolved with its highest severity": (
        [
            alert("a", 0),
            alert("b", 1, severity="critical"),
            alert("c", 2, severity="warning"),
            alert("d", 4, "NORMAL"),
        ],
        [incident("a", 0, 4, severity="critical", summary="alert c", last_alert_id="d")],
    ),
    "what operators do": (
        [alert("a", 0)],
        [incident("a", 0, status="acknowledged", acknowledged_by="ada", inhibited=True)],
    ),
    "by rule and subject": (
        [alert("a", 0), alert("b", 1, subject="rack-0002"), alert("c", 2, **OTHER)],
        [
            incident("c", 2, **OTHER),
            incident("a", 0),
            incident("b", 1, subject="rack-0002"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_expected_incidents_follow_from_the_alerts(case: str) -> None:
    assert differences(*CASES[case]) == []


def test_each_difference_is_found() -> None:
    alerts: list[Row] = [alert("a", 0), alert("b", 2, "NORMAL"), alert("c", 5)]
    about = "('rack-overheating', 'rack-0001')"
    wrong = {
        "alert_id": "a",
        "severity": "info",
        "site_id": "site-2",
        "start_time": at(1),
        "end_time": at(9),
        "summary": "",
        "last_alert_id": "a",
    }
    expected = incident("c", 5)
    for name, value in wrong.items():
        fault = f"incident {about}: {name} is {value!r}, not {expected[name]!r}"
        assert differences(alerts, [expected | {name: value}]) == [fault]
    closed = differences(alerts, [expected | {"status": "resolved"}])
    assert closed == [f"incident {about}: is_open is False, not True"]
    assert differences(alerts, []) == [f"incident {about}"]
    assert differences([], [expected]) == [f"incident {about} was not expected"]


def test_a_resolved_incident_is_removed_after_a_day() -> None:
    alerts: list[Row] = [alert("a", 0), alert("b", 2, "NORMAL")]
    kept: list[Row] = [incident("a", 0, 2, last_alert_id="b")]
    day_later = 3 + DAY_MS / 60_000  # it was detected at minute 3
    about = "incident ('rack-overheating', 'rack-0001')"
    assert differences(alerts, [], day_later - 2) == [about]
    assert differences(alerts, kept, day_later - 2) == []
    for minute in (day_later - 0.5, day_later + 0.5):
        assert differences(alerts, kept, minute) == differences(alerts, [], minute) == []
    assert differences(alerts, kept, day_later + 2) == [f"{about} was not expected"]
    assert differences(alerts, [], day_later + 2) == []
    assert differences([alert("a", 0)], [], day_later + 2) == [about]
