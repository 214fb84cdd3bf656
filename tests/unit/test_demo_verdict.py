"""The demo's verdict finds each way in which an output can be missing or wrong."""

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from demo import report
from demo.comparison import Comparison
from demo.verdict import (
    Actual,
    Truth,
    compare_alerts,
    compare_alerts_by_rule,
    compare_closed_windows,
    compare_dead_letters,
    compare_outputs,
    compare_signal_statistics,
    compare_windows,
    site_outages,
)
from demo.verdict_command import verdict_command
from events.catalog import JOBS, RULE_JOBS, RULES
from events.cli import UserFacingError
from events.constants import CONSECUTIVE_READINGS
from events.rules import Rules, SiteOutage
from events.times import to_ms, to_text
from producer.scenario import Scenario
from tests.builders import rack
from tests.demo import VERDICT_ROWS
from tests.unit.test_demo_clickstream import TRUTH as CLICKSTREAM

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
    return alert(
        number, **{"detected_time": T0, "summary": "It is hot.", "first_seen_time": T0, **changes}
    )


def dead_letter(offset: int, **changes: Any) -> dict[str, Any]:
    return {
        "source_topic": "rack-readings",
        "partition": 2,
        "offset": offset,
        "reason": "unreadable",
        "value_size": 17,
    } | changes


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


def statistic(device_type: str | None, rack_id: str | None, **changes: Any) -> dict[str, Any]:
    row = {
        "window_start": "2026-11-21T06:26:00.000Z",
        "window_end": "2026-11-21T06:27:00.000Z",
        "device_type": device_type,
        "rack_id": rack_id,
        "reading_count": 7,
        "signal_strength_min": 0.1,
        "signal_strength_max": 0.9,
        "signal_strength_avg": 0.5,
    }
    return row | changes


CLICKSTREAM_ROWS = {
    "clicked impressions": 2,
    "unclicked impressions": 1,
    "sessions": 2,
    "user totals": 1,
    "action counts": 2,
}
"""How many rows each output has, of those that `test_demo_clickstream` compares."""
ACTION = {
    "event_id": "e1",
    "event_time": T0,
    "user_id": "u",
    "action": "view",
    "page": "/",
    "device": "phone",
    "amount": None,
}
OPENING = logged(1001)
INCIDENT = {
    "alert_id": OPENING["alert_id"],
    "status": "firing",
    "severity": "error",
    "rule": "rack-overheating",
    "subject": "rack-0001",
    "site_id": "site-1",
    "start_time": T0,
    "end_time": None,
    "summary": "It is hot.",
    "last_alert_id": OPENING["alert_id"],
}


def truth(alerts: int = 20, duplicates: int = 100, dead_letters: int = 1) -> Truth:
    counts = {"late": 3, "too_late": 0, "out_of_order": 5, "malformed": dead_letters}
    return Truth(
        {"start_wall_time": T0, "acknowledged": 5000, "duplicates": duplicates, **counts},
        [alert(number, rule=RULES[number // 2 % len(RULES)]) for number in range(alerts)],
        [dead_letter(number) for number in range(dead_letters)],
        [window("fleet")],
        CLICKSTREAM,
        distinct=[ACTION],
        signal_statistics=[statistic("x", None)],
    )


def outputs_of(expected: Truth, **changes: Any) -> Actual:
    actual: dict[str, Any] = {
        "alerts": [{**logged(0), **row} for row in expected.alerts],
        "dead_letters": [*expected.dead_letters, *expected.dead_letters],
        "windows": expected.windows,
        "alert_topic": [(OPENING, 0)],
        "incidents": [INCIDENT],
        "clickstream": expected.clickstream,
        "distinct": expected.distinct,
        "signal_statistics": expected.signal_statistics,
    }
    return Actual(**{**actual, **changes})


def printed(expected: Truth, actual: Actual, width: int = 200, **comparisons: Comparison) -> str:
    """Return the report; `comparisons` replace some that were made."""
    console = Console(file=io.StringIO(), width=width, record=True)
    verdict = replace(compare_outputs(expected, actual), **comparisons)  # type: ignore[arg-type]
    report.show(console, expected, actual, verdict, 12.34)
    return console.export_text()


def test_what_to_expect_names_the_readings_that_the_rule_counts() -> None:
    text = report.expectation(Scenario(), "localhost:9092", "demo", None)
    assert f"a rack's last {CONSECUTIVE_READINGS} readings are all at\nor above" in text
    text = report.expectation(Scenario(), "localhost:9092", "demo", None, rules=Path("own.yaml"))
    assert "a WARNING when a rack overheats by own.yaml,\nand a NORMAL when it no longer" in text
    assert "readings are" not in text


def test_all_expected_outputs_and_nothing_else_pass() -> None:
    verdict = compare_outputs(truth(), outputs_of(truth()))
    assert verdict.passed
    assert not verdict.shortfalls
    assert "0 missing, 0 wrong" in report.conclusion(verdict)


def test_an_alert_that_was_not_logged_is_missing() -> None:
    compared = compare_alerts([alert(1), alert(2)], [logged(1)])
    assert (compared.expected, compared.actual, compared.wrong) == (2, 1, [])
    assert compared.missing == [f"alert {2:032x} (rack-0001 NORMAL at {T0})"]
    assert not compared.passed


def test_an_alert_that_was_not_expected_is_wrong() -> None:
    compared = compare_alerts([alert(1)], [logged(1), logged(2)])
    assert compared.wrong == [f"alert {2:032x} (rack-0001 NORMAL at {T0}) was not expected"]
    assert not compared.missing


def test_an_alert_logged_twice_is_wrong_once() -> None:
    compared = compare_alerts([alert(1)], [logged(1), logged(1)])
    assert compared.wrong == [f"alert {1:032x} (rack-0001 WARNING at {T0}) was logged 2 times"]


def test_an_alert_with_another_field_is_wrong() -> None:
    evidence = alert(1)["evidence"][0]
    changes = {
        "rule": "weak-signal",
        "subject": "rack-0002",
        "site_id": "site-2",
        "state": "NORMAL",
        "severity": "critical",
        "event_time": "2026-11-21T06:26:00.124Z",
        "evidence": [],
    }
    variants = [*changes.items(), ("evidence", [evidence | {"temperature_c": 99.4}])]
    wrong = [
        compare_alerts([alert(1)], [logged(1, **{name: value})]).wrong for name, value in variants
    ]
    expected = alert(1)
    assert [[sentence.partition("): ")[2] for sentence in found] for found in wrong] == [
        [f"{name} is {value!r}, not {expected[name]!r}"] for name, value in variants
    ]


def test_indeterminate_alerts_are_only_counted() -> None:
    expected = [alert(1), alert(2, either=True), alert(3, either=True)]
    compared = compare_alerts(expected, [logged(1), logged(2, severity="critical"), logged(2)])
    assert (compared.expected, compared.actual, compared.either, compared.passed) == (1, 1, 2, True)
    assert not compare_alerts(expected, [logged(2)]).passed


def test_site_outages_are_judged_by_the_rules_that_the_jobs_run_with() -> None:
    inventory = [rack(f"rack-{number:04d}") for number in range(4)]
    warnings = [alert(1), alert(3, subject="rack-0002")]
    expected = replace(truth(0), alerts=warnings, inventory=inventory)
    actual = Actual(alert_topic=[(row, 0) for row in warnings])
    strict = replace(expected, rules=Rules((SiteOutage(share=0.4),)))
    assert site_outages(expected, actual) == []
    assert [row["state"] for row in site_outages(strict, actual)] == ["WARNING"]


def test_a_site_outage_that_an_indeterminate_alert_moves_is_indeterminate() -> None:
    inventory = [rack(f"rack-{number:04d}") for number in range(4)]
    times = [f"2026-11-21T06:26:0{number}.000Z" for number in range(4)]
    warnings = [
        alert(1 + 2 * number, subject=f"rack-{number:04d}", event_time=time)
        for number, time in enumerate(times)
    ]
    topic = [(row, 0) for row in warnings]
    rules = Rules((SiteOutage(share=0.5),))
    certain = replace(truth(0), alerts=warnings, inventory=inventory, rules=rules)
    first_may_come = replace(certain, alerts=[{**warnings[0], "either": True}, *warnings[1:]])

    def outages(expected: Truth) -> list[tuple[object, object]]:
        return [
            (row["event_time"], row.get("either"))
            for row in site_outages(expected, Actual(alert_topic=topic))
        ]

    assert outages(certain) == [(times[2], None)]
    assert outages(first_may_come) == [(times[3], True), (times[2], True)]


def test_a_site_outage_after_initial_silences_is_certain() -> None:
    inventory = [rack(f"rack-{number:04d}", site_id="site-1") for number in range(4)]

    def alerts(state: str, first_number: int, at: str, **changes: Any) -> list[dict[str, Any]]:
        return [
            logged(
                first_number + 2 * place,
                subject=one.rack_id,
                state=state,
                event_time=f"2026-11-21T06:{at}Z",
                **changes,
            )
            for place, one in enumerate(inventory)
        ]

    silences = alerts("WARNING", 101, "25:50.000", rule="silent-sensor", evidence=[])
    first_readings = alerts("NORMAL", 100, "26:00.500", rule="silent-sensor")
    outage = [*alerts("WARNING", 201, "30:00.000"), *alerts("NORMAL", 200, "31:00.000")]
    known = [{**row, "either": True} for row in first_readings]
    expected = replace(truth(), alerts=[*known, *outage], inventory=inventory)
    actual = outputs_of(expected, alerts=[*silences, *first_readings, *outage])
    actual = replace(actual, alert_topic=[(row, to_ms(row["event_time"])) for row in actual.alerts])
    assert [
        (row["event_time"][14:19], row["state"], bool(row.get("either")))
        for row in sorted(site_outages(expected, actual), key=lambda row: str(row["event_time"]))
    ] == [
        ("25:50", "WARNING", True),
        ("26:00", "NORMAL", True),
        ("30:00", "WARNING", False),
        ("31:00", "NORMAL", False),
    ]


def test_only_the_first_silence_of_a_rack_of_the_inventory_before_its_readings_may_come() -> None:
    expected = replace(truth(), inventory=[rack(site_id="site-1")])
    certain = [row for row in expected.alerts if row["rule"] == "silent-sensor"]
    assert certain
    silence = {
        "rule": "silent-sensor",
        "state": "WARNING",
        "evidence": [],
        "event_time": "2026-11-21T06:25:50.000Z",
    }
    first = logged(99, **silence)
    later = {
        "again": [first, logged(101, **silence)],
        "after the first readings": [first | {"event_time": "2026-11-21T06:26:07.000Z"}],
        "of no rack": [first | {"subject": "rack-0777"}],
        "at another site": [first | {"site_id": "site-9"}],
        "NORMAL": [first | {"state": "NORMAL"}],
        "with evidence": [first | {"evidence": alert(1)["evidence"]}],
    }
    counts = {
        name: (
            sum(each.either for each in compared.by_name.values()),
            sum(len(each.wrong) for each in compared.by_name.values()),
        )
        for name, alerts in {"once": [first], **later}.items()
        for outputs in [outputs_of(expected)]
        for compared in [
            compare_outputs(expected, replace(outputs, alerts=[*outputs.alerts, *alerts]))
        ]
    }
    assert counts == {
        "once": (1, 0),
        "again": (1, 1),
        "after the first readings": (0, 1),
        "of no rack": (0, 1),
        "at another site": (0, 1),
        "NORMAL": (0, 1),
        "with evidence": (0, 1),
    }


def test_a_record_that_is_not_an_alert_is_wrong() -> None:
    by_rule = compare_alerts_by_rule([alert(1)], [logged(1)], not_alerts=2)
    assert [(name, each.wrong) for name, each in by_rule.items() if not each.passed] == [
        ("records that are no alerts", ["the topic alerts holds 2 records that are no alerts"])
    ]


def test_records_of_another_kind_fail_and_name_their_topic() -> None:
    text = printed(truth(), outputs_of(truth(), other_records={"user-totals": 2}))
    assert "records of another kind in the topic user-totals: 2" in text
    assert "FAILED in records of another kind: 0 missing, 1 wrong." in text
    assert "of another kind" not in printed(truth(), outputs_of(truth()))


def test_each_rules_alerts_are_compared_in_a_row_of_their_own() -> None:
    expected = [alert(number, rule=rule) for number, rule in enumerate(RULES)]
    actual = [logged(number, rule=rule) for number, rule in enumerate(RULES)][1:]
    by_rule = compare_alerts_by_rule(expected, actual, not_alerts=0)
    assert list(by_rule) == list(RULES)
    assert [len(each.missing) for each in by_rule.values()] == [1, *[0] * (len(RULES) - 1)]
    assert [(each.expected, each.wrong) for each in by_rule.values()] == [(1, [])] * len(RULES)


def test_a_dead_letter_reported_twice_is_one() -> None:
    compared = compare_dead_letters(
        [dead_letter(1)], [dead_letter(1, error="a"), dead_letter(1, error="b")]
    )
    assert (compared.expected, compared.actual, compared.passed) == (1, 1, True)


def test_a_dead_letter_missing_unexpected_or_different_is_found() -> None:
    compared = compare_dead_letters(
        [dead_letter(1), dead_letter(2), dead_letter(4)],
        [dead_letter(2, value_size=3), dead_letter(3), dead_letter(4, reason="future")],
    )
    assert compared.missing == ["dead letter ('rack-readings', 2, 1)"]
    assert compared.wrong == [
        "dead letter ('rack-readings', 2, 2): value_size is 3, not 17",
        "dead letter ('rack-readings', 2, 3) was not expected",
        "dead letter ('rack-readings', 2, 4): reason is 'future', not 'unreadable'",
    ]


def test_a_windows_mean_may_differ_by_rounding_but_its_count_by_nothing() -> None:
    expected = window("fleet")
    assert compare_windows(
        [expected], [window("fleet", temperature_c_avg=71.42857142857144)]
    ).passed
    assert not compare_windows([expected], [window("fleet", temperature_c_avg=71.4286)]).passed
    assert not compare_windows([expected], [window("fleet", reading_count=8)]).passed
    assert not compare_windows([expected], [window("fleet", temperature_c_max=None)]).passed


def test_indeterminate_windows_are_only_counted() -> None:
    expected = [window("fleet"), window("rack-0001", either=True), window("rack-0002", either=True)]
    compared = compare_windows(expected, [window("fleet"), window("rack-0001", reading_count=1)])
    assert (compared.expected, compared.actual, compared.either, compared.passed) == (1, 1, 2, True)


def test_of_a_closed_window_no_record_may_replace_another() -> None:
    expected = replace(truth(), closed_windows=[window("fleet"), window("rack-0001")])
    written = [window("rack-0001"), window("fleet"), window("fleet")]
    verdict = compare_outputs(expected, outputs_of(expected, closed_windows=written))
    assert (verdict.passed, verdict.by_name["closed windows"].expected) == (True, 2)
    fewer = window("fleet", reading_count=6)
    for changed in ([fewer, *written], [*written, fewer]):
        compared = compare_closed_windows(expected.closed_windows or [], changed)
        assert compared.missing == []
        assert [sentence.partition(": ")[2] for sentence in compared.wrong] == [
            "reading_count is 6, not 7"
        ]
    text = printed(expected, outputs_of(expected, closed_windows=[*written[1:], window("rack-9")]))
    assert "FAILED in closed windows: 1 missing, 1 wrong." in text


def test_closed_windows_have_no_row_where_none_is_judged() -> None:
    early = {"closed_windows": [window("fleet")]}
    assert "closed windows" not in compare_outputs(truth(), outputs_of(truth(), **early)).by_name


def test_closed_windows_of_which_none_is_due_yet_are_shown_and_do_not_fail() -> None:
    none_due = replace(truth(), closed_windows=[], not_due={"closed windows": 1234})
    verdict = compare_outputs(none_due, outputs_of(none_due))
    assert (verdict.passed, verdict.shortfalls) == (True, [])
    lines = printed(none_due, outputs_of(none_due)).splitlines()
    (row,) = [number for number, line in enumerate(lines) if line.startswith(" closed windows")]
    assert lines[row].split() == ["closed", "windows", "0", "0", "0", "0"]
    assert lines[row + 1].split() == ["not", "due", "yet", "1,234"]
    early = outputs_of(none_due, closed_windows=[window("fleet")])
    assert len(compare_outputs(none_due, early).by_name["closed windows"].wrong) == 1
    none_at_all = replace(none_due, not_due={"closed windows": 0})
    assert compare_outputs(none_at_all, outputs_of(none_at_all)).shortfalls == ["no closed windows"]


def test_a_missing_and_an_unexpected_window_are_found() -> None:
    compared = compare_windows([window("fleet")], [window("rack-0009")])
    assert compared.missing == ["window ('fleet', '2026-11-21T06:20:00.000Z')"]
    assert compared.wrong == ["window ('rack-0009', '2026-11-21T06:20:00.000Z') was not expected"]


def test_a_statistic_is_compared_by_window_and_group_and_in_every_field() -> None:
    expected = [statistic("x", None), statistic(None, "x"), statistic(None, "y", either=True)]
    nearly = statistic("x", None, signal_strength_avg=0.5 + 1e-12)
    right = compare_signal_statistics(expected, [nearly, statistic(None, "x")])
    assert (right.passed, right.expected, right.actual, right.either) == (True, 2, 2, 1)
    start = "2026-11-21T06:26:00.000Z"
    wrong = compare_signal_statistics(expected, [statistic(None, "x"), statistic(None, "z")])
    assert wrong.missing == [f"signal statistic ('{start}', 'x', None)"]
    assert wrong.wrong == [f"signal statistic ('{start}', None, 'z') was not expected"]
    others = {
        "window_end": start,
        "reading_count": 8,
        "signal_strength_min": 0.2,
        "signal_strength_max": 0.8,
        "signal_strength_avg": 0.5001,
    }
    for name, value in others.items():
        changed = compare_signal_statistics(expected[:1], [statistic("x", None, **{name: value})])
        assert [sentence.split()[5] for sentence in changed.wrong] == [name]


ROWS_OF_JOBS: dict[str, set[str]] = {
    **{job: {rule} for rule, job in RULE_JOBS.items()},
    "rack_temperature": {"rack-temperature windows"},
    "ad_attribution": {"clicked impressions", "unclicked impressions"},
    "action_counts": {"action counts"},
    "user_sessions": {"sessions"},
    "user_totals": {"user totals"},
    "deduplicate": {"distinct actions"},
    "archive": {"archived records"},
    "signal_statistics": {"signal statistics"},
    "dead_letters": {"dead letters"},
}


def test_every_job_has_a_row() -> None:
    assert set(ROWS_OF_JOBS) == set(JOBS)
    rows = set().union(*ROWS_OF_JOBS.values())
    assert rows | {"input records", "incidents"} == set(VERDICT_ROWS)


def test_a_verdict_on_all_jobs_has_a_row_of_each_even_if_nothing_was_sent() -> None:
    later = {"input records", "archived records"}  # compared where the topics and files are
    verdicts = [compare_outputs(each, outputs_of(each)) for each in (truth(), nothing_sent())]
    rows = [set(verdict.by_name) for verdict in verdicts]
    assert rows == [{*VERDICT_ROWS} - later] * 2


def nothing_sent(**changes: Any) -> Truth:
    return replace(truth(), clickstream={}, distinct=(), signal_statistics=(), **changes)


def test_rows_of_what_was_never_sent_are_named_as_lacking() -> None:
    rows = ["signal statistics", *CLICKSTREAM_ROWS, "distinct actions"]
    verdict = compare_outputs(nothing_sent(), outputs_of(nothing_sent()))
    assert (verdict.passed, verdict.shortfalls) == (True, [f"no {name}" for name in rows])
    lines = [line.split() for line in printed(truth(), outputs_of(truth())).splitlines()]
    assert ["signal", "statistics", "1", "1", "0", "0"] in lines
    text = printed(nothing_sent(), outputs_of(nothing_sent()))
    lines = [line.split() for line in text.splitlines()]
    assert [[*name.split(), "0", "0", "0", "0"] in lines for name in rows] == [True] * len(rows)
    assert f": no {', no '.join(rows)}. Let every producer run" in report.conclusion(verdict)


def test_outputs_that_are_not_required_have_no_row_unless_they_were_sent() -> None:
    fewer: dict[str, Any] = {"clickstream_required": False, "statistics_required": False}
    verdict = compare_outputs(nothing_sent(**fewer), outputs_of(nothing_sent(**fewer)))
    assert (verdict.passed, verdict.shortfalls) == (True, [])
    assert list(verdict.others) == ["incidents", "dead letters", "rack-temperature windows"]
    sent = replace(truth(), **fewer)
    verdict = compare_outputs(sent, outputs_of(sent, signal_statistics=(), distinct=()))
    failed = [name for name, each in verdict.others.items() if not each.passed]
    assert failed == ["signal statistics", "distinct actions"]
    assert list(verdict.clickstream) == list(CLICKSTREAM_ROWS)


def test_an_archive_that_has_to_hold_nothing_is_lacking() -> None:
    nothing = Comparison(0, 0, [], [])
    verdict = compare_outputs(truth(), outputs_of(truth()), archived=nothing, dashboard=nothing)
    assert verdict.shortfalls == ["no archived records", "no dashboard figures"]


def test_rows_that_wait_for_the_watermark_are_counted_below_their_row() -> None:
    waiting = replace(truth(), not_due={"sessions": 1234, "unclicked impressions": 0})
    lines = [line.split() for line in printed(waiting, outputs_of(waiting)).splitlines()]
    below = lines[lines.index(["sessions", "2", "2", "0", "0"]) + 1]
    assert below == ["not", "due", "yet", "1,234"]
    assert lines.count(below) == 1
    assert "not due yet" not in printed(truth(), outputs_of(truth()))


def test_a_row_that_expects_nothing_fails_even_if_some_of_it_is_not_due_yet() -> None:
    none_due = replace(
        truth(), clickstream=CLICKSTREAM | {"session": []}, not_due={"sessions": 1234}
    )
    verdict = compare_outputs(none_due, outputs_of(none_due))
    assert (verdict.passed, verdict.shortfalls) == (True, ["no sessions"])


def test_a_verdict_that_fails_also_names_what_is_lacking() -> None:
    expected = nothing_sent(statistics_required=False)
    text = printed(expected, outputs_of(expected, windows=[]))
    last = text.splitlines()[-1]
    assert last.startswith("FAILED in rack-temperature windows: 1 missing, 0 wrong. Not proved: no")
    assert ", no sessions, " in last


def test_a_scenario_that_did_not_happen_is_reported_as_too_short() -> None:
    one_state = [
        {**row, **({"state": "WARNING"} if row["rule"] == "weak-signal" else {})}
        for row in truth().alerts
    ]
    may_come = [{**row, "either": row["rule"] == "lost-signal"} for row in truth(22).alerts]
    cases = {
        "19 of at least 20 alerts": truth(alerts=19),
        "99 of at least 100 duplicates": truth(duplicates=99),
        "no dead letters": truth(dead_letters=0),
        "no weak-signal of state NORMAL": replace(truth(), alerts=one_state),
        "no lost-signal of state WARNING, no lost-signal of state NORMAL": replace(
            truth(), alerts=may_come
        ),
    }
    verdicts = [
        compare_outputs(each, outputs_of(each, alerts=each.alerts)) for each in cases.values()
    ]
    assert [(verdict.passed, verdict.shortfalls) for verdict in verdicts] == [
        (True, lack.split(", ")) for lack in cases
    ]
    assert [report.conclusion(verdict) for verdict in verdicts] == [
        "Nothing is missing or wrong, but what was sent is too little to prove anything: "
        f"{lack}. Let every producer run for 60 s."
        for lack in cases
    ]


def test_the_report_counts_and_names_what_is_missing_and_wrong() -> None:
    expected = truth()
    actual = outputs_of(
        expected,
        alerts=[{**logged(0), **row} for row in expected.alerts[1:]],
        windows=[],
        repeats=4,
    )
    text = printed(expected, actual)
    lines = [line.split() for line in text.splitlines()]
    assert ["rack-overheating", "4", "3", "1", "0"] in lines
    assert ["lost-signal", "4", "4", "0", "0"] in lines
    assert ["rack-temperature", "windows", "1", "0", "1", "0"] in lines
    assert "sent: 5,000 records, of them 100 duplicates, 3 late" in text
    assert "duplicate alerts, removed: 4" in text
    assert "from start to first alert: 12.3 s" in text
    assert f"missing: alert {0:032x}" in text
    assert "FAILED in rack-overheating, rack-temperature windows: 2 missing, 0 wrong." in text


def test_large_counts_are_not_cut_in_a_narrow_terminal() -> None:
    archived = Comparison(12_345_678, 12_345_678, [], [])
    text = printed(truth(), outputs_of(truth()), width=80, archived=archived)
    assert re.search(r"^ *archived records +12,345,678 +12,345,678 +0 +0 *$", text, re.MULTILINE)
    assert re.search(r" delay p50 +max *$", text, re.MULTILINE)


def test_a_failure_of_the_clickstream_alone_is_counted_and_named_in_the_last_sentence() -> None:
    text = printed(truth(), outputs_of(truth(), clickstream=CLICKSTREAM | {"session": []}))
    assert text.splitlines()[-1] == "FAILED in sessions: 2 missing, 0 wrong."


OTHER_COMPARISONS = {
    "inputs": "input records",
    "incidents": "incidents",
    "dead_letters": "dead letters",
    "windows": "rack-temperature windows",
    "signal_statistics": "signal statistics",
    "distinct": "distinct actions",
    "archived": "archived records",
    "dashboard": "dashboard figures",
}
"""The comparisons of neither alerts nor the clickstream, and what the report calls them."""


@pytest.mark.parametrize("compared", OTHER_COMPARISONS)
def test_one_comparison_that_fails_is_enough(compared: str) -> None:
    good = compare_outputs(truth(), outputs_of(truth()))
    assert good.passed
    failed: dict[str, Any] = {compared: Comparison(1, 0, ["a row"], [])}
    spoilt = replace(good, **failed)
    name = OTHER_COMPARISONS[compared]
    assert not spoilt.passed
    assert report.conclusion(spoilt) == f"FAILED in {name}: 1 missing, 0 wrong."


def test_of_many_missing_rows_only_some_are_listed() -> None:
    dead_letters = [dead_letter(number) for number in range(20)]
    text = printed(replace(truth(), dead_letters=dead_letters), outputs_of(truth()))
    assert text.count("missing: dead letter") == report.DIFFERENCES_SHOWN
    assert "missing: and 14 more of dead letters" in text


def test_delays_of_a_rule_are_in_its_row_and_those_of_earlier_alerts_below() -> None:
    def due(number: int, after_s: float) -> dict[str, Any]:
        time = to_text(to_ms(T0) + round(1000 * after_s))
        return alert(number, rule="lost-signal", decidable_time=time)

    expected = [due(1, 1), due(2, 20), due(3, 30), due(4, 40)]
    came_s = {1: 11.5, 2: 21.5, 3: 32.5}
    topic = [
        (logged(0) | expected[n - 1], to_ms(T0) + round(1000 * at_s)) for n, at_s in came_s.items()
    ]
    text = printed(replace(truth(), alerts=expected), outputs_of(truth(), alert_topic=topic))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "due before first batch 1 10.5 s 10.5 s" in lines
    assert [line for line in lines if line.endswith("2.0 s 2.5 s")] == [
        "lost-signal 4 4 2 2 2.0 s 2.5 s"
    ]


@pytest.mark.parametrize("content", [b"text, and no database\n" * 100, None])
def test_what_is_no_database_is_reported_before_the_ledger_is_read(
    tmp_path: Path, content: bytes | None
) -> None:
    database = tmp_path / "database"
    if content is not None:
        database.write_bytes(content)
    start = f"the database {database} cannot be read "
    with pytest.raises(UserFacingError, match=rf"^{re.escape(start)}.* check --database\.$"):
        verdict_command(tmp_path / "ledger", tmp_path / "inventory", database)
