"""The verdict of the demo: each way in which an output can be missing or wrong is found."""

import io
from typing import Any

import pytest
from rich.console import Console

from demo import report
from demo.verdict import (
    Seen,
    Truth,
    compare_alerts,
    compare_dead_letters,
    compare_windows,
    judge,
    shortfalls,
)

T0 = "2026-11-21T06:26:00.123Z"


def alert(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "alert_id": f"{number:032x}",
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-1",
        "state": ("NORMAL", "WARNING")[number % 2],
        "severity": ("info", "error")[number % 2],
        "event_time": T0,
        "evidence": [{"event_id": "e1", "sequence": 1, "event_time": T0, "temperature_c": 99.5}],
    }
    return row | changes


def logged(number: int, **changes: Any) -> dict[str, Any]:
    return alert(number, **{"detected_time": T0, "summary": "It is hot.", "first_seen_time": T0, **changes})


def letter(offset: int, **changes: Any) -> dict[str, Any]:
    return {"source_topic": "rack-readings", "partition": 2, "offset": offset, "value_size": 17} | changes


def window(scope: str, **changes: Any) -> dict[str, Any]:
    row = {
        "scope": scope,
        "window_start": "2026-11-21T06:20:00.000Z",
        "window_end": "2026-11-21T06:30:00.000Z",
        "reading_count": 7,
        "temperature_c_avg": 71.42857142857143,
        "temperature_c_min": 60.0,
        "temperature_c_max": 99.5,
    }
    return row | changes


def truth(alerts: int = 20, duplicates: int = 100, letters: int = 1) -> Truth:
    counted = {"late": 3, "too_late": 0, "out_of_order": 5, "malformed": letters}
    return Truth(
        {"acknowledged": 5000, "duplicates": duplicates, **counted},
        [alert(number) for number in range(alerts)],
        [letter(number) for number in range(letters)],
        [window("fleet")],
    )


def all_of(told: Truth, **changes: Any) -> Seen:
    seen: dict[str, Any] = {
        "alerts": [logged(number) for number in range(len(told.alerts))],
        "dead_letters": [*told.dead_letters, *told.dead_letters],
        "windows": told.windows,
    }
    return Seen(**{**seen, **changes})


def said(told: Truth, seen: Seen) -> str:
    console = Console(file=io.StringIO(), width=200, record=True)
    report.show(console, told, seen, judge(told, seen), 12.34)
    return console.export_text()


def test_all_that_was_due_and_nothing_else_holds() -> None:
    verdict = judge(truth(), all_of(truth()))
    assert verdict.holds
    assert not verdict.shortfalls
    assert "0 missing, 0 wrong" in report.conclusion(verdict)


def test_an_alert_that_was_not_logged_is_missing() -> None:
    compared = compare_alerts([alert(1), alert(2)], [logged(1)])
    assert (compared.expected, compared.seen, compared.wrong) == (2, 1, [])
    assert compared.missing == [f"alert {2:032x} (rack-0001 NORMAL at {T0})"]
    assert not compared.holds


def test_an_alert_that_was_not_due_is_wrong() -> None:
    compared = compare_alerts([alert(1)], [logged(1), logged(2)])
    assert compared.wrong == [f"alert {2:032x} (rack-0001 NORMAL at {T0}) was not due"]
    assert not compared.missing


def test_an_alert_logged_twice_is_wrong_once() -> None:
    compared = compare_alerts([alert(1)], [logged(1), logged(1)])
    assert compared.wrong == [f"alert {1:032x} (rack-0001 WARNING at {T0}) was logged 2 times"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rule", "weak-signal"),
        ("subject", "rack-0002"),
        ("site_id", "site-2"),
        ("state", "NORMAL"),
        ("severity", "critical"),
        ("event_time", "2026-11-21T06:26:00.124Z"),
        ("evidence", []),
        ("evidence", [{"event_id": "e1", "sequence": 1, "event_time": T0, "temperature_c": 99.4}]),
    ],
)
def test_an_alert_with_another_field_is_wrong(name: str, value: object) -> None:
    compared = compare_alerts([alert(1)], [logged(1, **{name: value})])
    assert len(compared.wrong) == 1
    assert f": {name} is {value!r}, not " in compared.wrong[0]


def test_alerts_that_nothing_is_promised_about_are_counted_apart() -> None:
    expected = [alert(1), alert(2, either=True), alert(3, either=True)]
    compared = compare_alerts(expected, [logged(1), logged(2, severity="critical"), logged(2)])
    assert (compared.expected, compared.seen, compared.either, compared.holds) == (1, 1, 2, True)
    assert not compare_alerts(expected, [logged(2)]).holds


def test_a_record_that_is_no_alert_is_wrong() -> None:
    assert compare_alerts([alert(1)], [logged(1)], not_alerts=1).wrong == [
        "1 records in the topic alerts are no alerts"
    ]


def test_a_dead_letter_reported_by_two_jobs_is_one() -> None:
    compared = compare_dead_letters([letter(1)], [letter(1, error="a"), letter(1, error="b")])
    assert (compared.expected, compared.seen, compared.holds) == (1, 1, True)


def test_a_dead_letter_missing_not_due_or_of_another_size_is_found() -> None:
    compared = compare_dead_letters([letter(1), letter(2)], [letter(2, value_size=3), letter(3)])
    assert compared.missing == ["dead letter ('rack-readings', 2, 1)"]
    assert compared.wrong == [
        "dead letter ('rack-readings', 2, 2): value_size is 3, not 17",
        "dead letter ('rack-readings', 2, 3) was not due",
    ]


def test_a_windows_mean_may_differ_by_rounding_but_its_count_by_nothing() -> None:
    due = window("fleet")
    assert compare_windows([due], [window("fleet", temperature_c_avg=71.42857142857144)]).holds
    assert not compare_windows([due], [window("fleet", temperature_c_avg=71.4286)]).holds
    assert not compare_windows([due], [window("fleet", reading_count=8)]).holds
    assert not compare_windows([due], [window("fleet", temperature_c_max=None)]).holds


def test_windows_that_nothing_is_promised_about_are_counted_apart() -> None:
    expected = [window("fleet"), window("rack-0001", either=True), window("rack-0002", either=True)]
    compared = compare_windows(expected, [window("fleet"), window("rack-0001", reading_count=1)])
    assert (compared.expected, compared.seen, compared.either, compared.holds) == (1, 1, 2, True)


def test_a_missing_and_an_undue_window_are_found() -> None:
    compared = compare_windows([window("fleet")], [window("rack-0009")])
    assert compared.missing == ["window ('fleet', '2026-11-21T06:20:00.000Z')"]
    assert compared.wrong == ["window ('rack-0009', '2026-11-21T06:20:00.000Z') was not due"]


@pytest.mark.parametrize(
    ("told", "lacks"),
    [
        (truth(alerts=19), ["19 of at least 20 alerts"]),
        (truth(duplicates=99), ["99 of at least 100 duplicates"]),
        (truth(letters=0), ["no dead letter"]),
        (
            Truth(truth().summary, [alert(n, state="WARNING") for n in range(20)], [letter(0)], []),
            ["no alert of state NORMAL"],
        ),
    ],
)
def test_a_scenario_that_did_not_happen_is_said_to_be_too_short(told: Truth, lacks: list[str]) -> None:
    assert shortfalls(told) == lacks
    verdict = judge(told, all_of(told, alerts=told.alerts))
    assert verdict.holds
    assert f"too short to prove anything: {lacks[0]}. Let it" in report.conclusion(verdict)


def test_the_report_counts_and_names_what_is_missing_and_wrong() -> None:
    told = truth()
    seen = all_of(told, alerts=[logged(number) for number in range(1, 20)], windows=[], repeats=4)
    text = said(told, seen)
    assert ["alerts", "20", "19", "1", "0"] in [line.split() for line in text.splitlines()]
    assert ["rack-temperature", "windows", "1", "0", "1", "0"] in [line.split() for line in text.splitlines()]
    assert "sent: 5,000 records, of them 100 duplicates, 3 late" in text
    assert "alerts sent again, and removed: 4" in text
    assert "from start to the first alert: 12.3 s" in text
    assert f"missing: alert {0:032x}" in text
    assert "Not what had to come out: 2 missing, 0 wrong." in text


def test_of_many_missing_only_some_are_named() -> None:
    text = said(truth(), all_of(truth(), alerts=[]))
    assert text.count("missing: alert") == report.SHOWN
    assert "missing: and 15 more alerts" in text
