"""`rack-overheating` with a rule in the file: each sentence of its rules on a history written by hand."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events.records import RackReading
from events.rules import KEPT_READINGS, Overheating
from producer.oracle import alert_id, overheating_alerts
from producer.rule_oracles import overheating_state_alerts
from tests.unit.racks import T0, reading, told

HOT, WARM, COLD = 101.0, 92.0, 70.0
"""At a threshold of 100 °C, and one of 90 °C to clear."""


def alerts(celsius: list[float], **options: Any) -> list[tuple[str, str, str]]:
    return told(overheating_state_alerts([reading(n, c) for n, c in enumerate(celsius)], rule_of(**options)))


def rule_of(**options: Any) -> Any:
    return lambda _: Overheating(**options)


def of_records(readings: list[RackReading], **options: Any) -> list[tuple[str, str, str]]:
    return told(overheating_state_alerts(readings, rule_of(**options)))


def test_the_third_hot_reading_in_a_row_opens_and_the_first_below_the_threshold_ends() -> None:
    assert alerts([HOT, HOT, 100.0, HOT, 99.99, HOT]) == [("WARNING", "error", "2"), ("NORMAL", "info", "4")]


def test_an_alert_has_the_last_readings_as_evidence_and_the_contracts_id() -> None:
    (row,) = overheating_state_alerts([reading(n, HOT) for n in range(4)], rule_of(count=2))
    assert row == {
        "alert_id": alert_id("rack-overheating", "rack-0001", "WARNING", "error", "rack-0001/1"),
        "rule": "rack-overheating",
        "subject": "rack-0001",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:06:41.000Z",
        "evidence": [
            {
                "event_id": f"rack-0001/{n}",
                "sequence": n,
                "event_time": f"2026-11-18T11:06:4{n}.000Z",
                "temperature_c": HOT,
            }
            for n in (0, 1)
        ],
    }


@pytest.mark.parametrize(("count", "when"), [(1, "1"), (2, "2"), (4, "4"), (8, "8")])
def test_so_many_readings_in_a_row_as_the_rule_says(count: int, when: str) -> None:
    assert alerts([COLD] + [HOT] * count, count=count) == [("WARNING", "error", when)]
    assert alerts([COLD] + [HOT] * (count - 1), count=count) == []


def test_the_threshold_and_the_severity_are_the_rules() -> None:
    assert alerts([80.0] * 3 + [79.9], threshold_c=80.0, severity="warning") == [
        ("WARNING", "warning", "2"),
        ("NORMAL", "info", "3"),
    ]


def test_between_the_two_thresholds_a_warning_stays_and_nothing_opens() -> None:
    assert alerts([WARM, WARM, WARM, WARM], clear_below_c=90.0) == []
    assert alerts([HOT, HOT, HOT, WARM, 90.0, 89.99], clear_below_c=90.0) == [
        ("WARNING", "error", "2"),
        ("NORMAL", "info", "5"),
    ]


def test_readings_between_the_two_thresholds_interrupt_a_row_of_hot_ones() -> None:
    assert alerts([HOT, HOT, WARM, HOT, HOT], clear_below_c=90.0) == []


@pytest.mark.parametrize(("seconds", "opens"), [(10.0, True), (10.001, False)])
def test_the_readings_lie_within_a_span_both_ends_in(seconds: float, opens: bool) -> None:
    readings = [reading(1, HOT, at_s=0), reading(2, HOT, at_s=3), reading(3, HOT, at_s=seconds)]
    assert bool(of_records(readings, within_s=10)) == opens


def test_the_span_is_that_of_the_last_readings_only() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 50, 55, 60])]
    assert of_records(readings, within_s=10) == [("WARNING", "error", "60")]


def test_the_span_bounds_what_opens_not_what_stays() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 1, 2, 500, 1000])]
    assert of_records(readings, within_s=10) == [("WARNING", "error", "2")]


def test_it_becomes_critical_when_the_next_readings_each_are_higher() -> None:
    assert alerts([101, 101, 101, 102, 103, 104, 105], rising=3) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "5"),
    ]


@pytest.mark.parametrize("celsius", [[101, 102, 103], [102, 102, 103], [102, 103, 103], [102, 101.5, 103]])
def test_it_does_not_when_one_of_them_is_not_higher_than_the_one_before(celsius: list[float]) -> None:
    """Not even when three that come later are: the first ones after the opening one decide."""
    rest = [104.0, 105.0, 106.0, 107.0]
    assert alerts([101, 101, 101, *celsius, *rest], rising=3) == [("WARNING", "error", "2")]


def test_one_rising_reading_may_be_enough() -> None:
    assert alerts([101, 101, 101, 101.1], rising=1)[1:] == [("WARNING", "critical", "3")]


def test_it_becomes_critical_when_it_lasts_longer_than_it_may() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 1, 2, 62, 62.001, 70])]
    assert of_records(readings, critical_after_s=60) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "62.001"),
    ]


def test_it_stays_critical_until_normal_and_the_next_warning_begins_anew() -> None:
    celsius = [101, 101, 101, 102, 101, 101, COLD, 101, 101, 101]
    assert alerts(celsius, rising=1) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "3"),
        ("NORMAL", "info", "6"),
        ("WARNING", "error", "9"),
    ]


def test_a_rule_that_is_critical_from_the_start_has_nothing_to_become() -> None:
    assert alerts([101, 101, 101, 102, 103], rising=1, severity="critical") == [("WARNING", "critical", "2")]


def test_the_reading_that_ends_it_does_not_make_it_critical_by_its_time() -> None:
    readings = [reading(n, c, at_s=s) for n, (c, s) in enumerate([(HOT, 0), (HOT, 1), (HOT, 2), (COLD, 99)])]
    assert of_records(readings, critical_after_s=60) == [("WARNING", "error", "2"), ("NORMAL", "info", "99")]


def test_readings_count_in_order_of_their_sequence_not_of_their_arrival() -> None:
    assert of_records([reading(n, COLD if n == 2 else HOT) for n in (1, 3, 2, 4)]) == []
    assert of_records([reading(n, HOT) for n in (1, 3, 2)]) == [("WARNING", "error", "2")]


def test_of_two_readings_with_one_sequence_the_greater_id_is_the_later() -> None:
    first, second = reading(3, COLD, event_id="a/3"), reading(3, HOT, event_id="b/3")
    start = [reading(1, HOT), reading(2, HOT)]
    assert of_records([*start, second, first]) == [("WARNING", "error", "3"), ("NORMAL", "info", "3")]
    assert of_records([*start, first, second]) == []


def test_the_alert_is_the_records_but_its_evidence_the_last_in_order() -> None:
    (row,) = overheating_state_alerts([reading(n, HOT) for n in (2, 3, 1)], rule_of())
    assert row["event_time"] == reading(1).event_time
    assert row["alert_id"] == alert_id("rack-overheating", "rack-0001", "WARNING", "error", "rack-0001/1")
    assert [one["sequence"] for one in row["evidence"]] == [1, 2, 3]


def test_a_late_reading_may_open_end_and_escalate_what_was_before() -> None:
    """Taken again from its place on, everything after it: here the opening reading becomes another one."""
    assert of_records(
        [reading(n, HOT, at_s=10 * n) for n in (2, 3, 4, 5, 6, 1)], critical_after_s=20, count=3
    ) == [("WARNING", "error", "40"), ("WARNING", "critical", "10")]
    cleared = [reading(n, HOT) for n in (1, 2, 3)] + [reading(5, WARM), reading(4, COLD)]
    assert of_records(cleared, clear_below_c=90) == [("WARNING", "error", "3"), ("NORMAL", "info", "4")]


def test_another_opening_reading_alone_is_no_alert() -> None:
    assert of_records([reading(n, HOT) for n in (2, 3, 4, 1)]) == [("WARNING", "error", "4")]


def test_copies_change_nothing() -> None:
    one, two, three, cold = reading(1, HOT), reading(2, HOT), reading(3, HOT), reading(4, COLD)
    assert of_records([one, one, one, two]) == []
    assert of_records([one, two, three, three, one, cold, three, cold, two]) == [
        ("WARNING", "error", "3"),
        ("NORMAL", "info", "4"),
    ]


@pytest.mark.parametrize(("later", "taken"), [(KEPT_READINGS - 1, True), (KEPT_READINGS, False)])
def test_a_reading_after_so_many_of_higher_order_is_not_taken(later: int, taken: bool) -> None:
    """The cold one would end what the first three opened, all others being in between."""
    readings = [reading(n, HOT) for n in (1, 2, 3)] + [reading(n, WARM) for n in range(5, 5 + later)]
    assert of_records([*readings, reading(4, COLD)], clear_below_c=90)[1:] == (
        [("NORMAL", "info", "4")] if taken else []
    )


def test_copies_do_not_count_among_those_of_higher_order() -> None:
    later = [reading(n, WARM) for n in range(5, 4 + KEPT_READINGS)]
    readings = [reading(n, HOT) for n in (1, 2, 3)] + later + later
    assert of_records([*readings, reading(4, COLD)], clear_below_c=90)[1:] == [("NORMAL", "info", "4")]


def test_racks_do_not_mix_and_each_has_its_own_rule() -> None:
    readings = [reading(n, 85.0, rack=name) for n in (1, 2, 3) for name in ("rack-0001", "rack-0002")]
    found = overheating_state_alerts(
        readings, lambda name: Overheating(threshold_c=80.0 if name == "rack-0002" else 90.0)
    )
    assert [(row["subject"], row["state"]) for row in found] == [("rack-0002", "WARNING")]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([COLD, 99.99, 100.0, HOT]), max_size=20), st.randoms(use_true_random=False))
def test_with_nothing_but_defaults_it_is_the_contracts_rule(celsius: list[float], random: Any) -> None:
    readings = [reading(n, c) for n, c in enumerate(celsius)] * 2
    random.shuffle(readings)
    assert overheating_state_alerts(readings, rule_of()) == overheating_alerts(readings, {})


def test_the_moment_that_the_helpers_count_from() -> None:
    assert (T0 % 5000, reading(0).event_time) == (0, "2026-11-18T11:06:40.000Z")
