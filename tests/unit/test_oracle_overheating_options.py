"""`rack-overheating` by a rules file: each sentence of its definition, on short histories."""

from typing import Any

from events.records import RackReading
from events.rules import READING_HISTORY_SIZE, Overheating
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rows import alert_id
from tests.builders import T0, reading
from tests.unit.summaries import summarize

HOT, WARM, COLD = 101.0, 92.0, 70.0
"""For a threshold of 100 °C and a clear threshold of 90 °C."""


def alerts(celsius: list[float], **options: Any) -> list[tuple[str, str, str]]:
    return summarize(
        overheating_alerts([reading(n, c) for n, c in enumerate(celsius)], rule_with(**options))
    )


def rule_with(**options: Any) -> Any:
    return lambda _: Overheating(**options)


def of_records(readings: list[RackReading], **options: Any) -> list[tuple[str, str, str]]:
    return summarize(overheating_alerts(readings, rule_with(**options)))


def test_the_third_consecutive_hot_reading_warns_and_the_first_below_resolves() -> None:
    assert alerts([HOT, HOT, 100.0, HOT, 99.99, HOT]) == [
        ("WARNING", "error", "2"),
        ("NORMAL", "info", "4"),
    ]


def test_an_alert_has_the_last_readings_as_evidence_and_the_contracts_id() -> None:
    (row,) = overheating_alerts([reading(n, HOT) for n in range(4)], rule_with(count=2))
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


def test_the_rule_sets_the_number_of_consecutive_readings() -> None:
    counts = (1, 2, 4, 8)
    assert {count: alerts([COLD] + [HOT] * count, count=count) for count in counts} == {
        count: [("WARNING", "error", str(count))] for count in counts
    }
    too_few = {count: alerts([COLD] + [HOT] * (count - 1), count=count) for count in counts}
    assert too_few == {count: [] for count in counts}


def test_the_rule_sets_threshold_and_severity() -> None:
    assert alerts([80.0] * 3 + [79.9], threshold_c=80.0, severity="warning") == [
        ("WARNING", "warning", "2"),
        ("NORMAL", "info", "3"),
    ]


def test_between_the_thresholds_a_warning_stays_and_none_opens() -> None:
    assert alerts([WARM, WARM, WARM, WARM], clear_below_c=90.0) == []
    assert alerts([HOT, HOT, HOT, WARM, 90.0, 89.99], clear_below_c=90.0) == [
        ("WARNING", "error", "2"),
        ("NORMAL", "info", "5"),
    ]


def test_readings_between_the_thresholds_interrupt_consecutive_hot_ones() -> None:
    assert alerts([HOT, HOT, WARM, HOT, HOT], clear_below_c=90.0) == []


def test_the_time_span_of_the_readings_includes_both_ends() -> None:
    readings = [reading(1, HOT, at_s=0), reading(2, HOT, at_s=3)]
    assert of_records([*readings, reading(3, HOT, at_s=10.0)], within_s=10) != []
    assert of_records([*readings, reading(3, HOT, at_s=10.001)], within_s=10) == []


def test_only_the_last_readings_must_be_within_the_time_span() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 50, 55, 60])]
    assert of_records(readings, within_s=10) == [("WARNING", "error", "60")]


def test_the_time_span_limits_opening_not_staying() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 1, 2, 500, 1000])]
    assert of_records(readings, within_s=10) == [("WARNING", "error", "2")]


def test_rising_readings_after_the_opening_one_escalate() -> None:
    assert alerts([101, 101, 101, 102, 103, 104, 105], rising=3) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "5"),
    ]


def test_readings_that_do_not_all_rise_do_not_escalate() -> None:
    """Not even when three later ones rise: the first ones after the opening one decide."""
    rest = [104.0, 105.0, 106.0, 107.0]
    cases = [(101, 102, 103), (102, 102, 103), (102, 103, 103), (102, 101.5, 103)]
    found = {case: alerts([101, 101, 101, *case, *rest], rising=3) for case in cases}
    assert found == {case: [("WARNING", "error", "2")] for case in cases}


def test_the_rule_may_escalate_after_one_rising_reading() -> None:
    assert alerts([101, 101, 101, 101.1], rising=1)[1:] == [("WARNING", "critical", "3")]


def test_a_warning_that_lasts_too_long_escalates() -> None:
    readings = [reading(n, HOT, at_s=at_s) for n, at_s in enumerate([0, 1, 2, 62, 62.001, 70])]
    assert of_records(readings, critical_after_s=60) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "62.001"),
    ]


def test_a_warning_stays_critical_until_normal_and_the_next_starts_anew() -> None:
    celsius = [101, 101, 101, 102, 101, 101, COLD, 101, 101, 101]
    assert alerts(celsius, rising=1) == [
        ("WARNING", "error", "2"),
        ("WARNING", "critical", "3"),
        ("NORMAL", "info", "6"),
        ("WARNING", "error", "9"),
    ]


def test_a_warning_that_starts_as_critical_does_not_escalate() -> None:
    assert alerts([101, 101, 101, 102, 103], rising=1, severity="critical") == [
        ("WARNING", "critical", "2")
    ]


def test_the_resolving_reading_does_not_escalate_by_its_time() -> None:
    readings = [
        reading(n, c, at_s=s) for n, (c, s) in enumerate([(HOT, 0), (HOT, 1), (HOT, 2), (COLD, 99)])
    ]
    assert of_records(readings, critical_after_s=60) == [
        ("WARNING", "error", "2"),
        ("NORMAL", "info", "99"),
    ]


def test_readings_are_ordered_by_sequence_not_by_arrival() -> None:
    assert of_records([reading(n, COLD if n == 2 else HOT) for n in (1, 3, 2, 4)]) == []
    assert of_records([reading(n, HOT) for n in (1, 3, 2)]) == [("WARNING", "error", "2")]


def test_of_two_readings_with_one_sequence_the_greater_id_is_later() -> None:
    first, second = reading(3, COLD, event_id="a/3"), reading(3, HOT, event_id="b/3")
    start = [reading(1, HOT), reading(2, HOT)]
    assert of_records([*start, second, first]) == [
        ("WARNING", "error", "3"),
        ("NORMAL", "info", "3"),
    ]
    assert of_records([*start, first, second]) == []


def test_the_record_triggers_the_alert_and_the_last_in_order_are_its_evidence() -> None:
    (row,) = overheating_alerts([reading(n, HOT) for n in (2, 3, 1)], rule_with())
    assert row["event_time"] == reading(1).event_time
    assert row["alert_id"] == alert_id(
        "rack-overheating", "rack-0001", "WARNING", "error", "rack-0001/1"
    )
    assert [one["sequence"] for one in row["evidence"]] == [1, 2, 3]


def test_a_late_reading_may_open_resolve_or_escalate() -> None:
    """All states from its place on are computed again: here another reading opens the warning."""
    assert of_records(
        [reading(n, HOT, at_s=10 * n) for n in (2, 3, 4, 5, 6, 1)], critical_after_s=20, count=3
    ) == [("WARNING", "error", "40"), ("WARNING", "critical", "10")]
    cleared = [reading(n, HOT) for n in (1, 2, 3)] + [reading(5, WARM), reading(4, COLD)]
    assert of_records(cleared, clear_below_c=90) == [
        ("WARNING", "error", "3"),
        ("NORMAL", "info", "4"),
    ]


def test_a_different_opening_reading_alone_gives_no_alert() -> None:
    assert of_records([reading(n, HOT) for n in (2, 3, 4, 1)]) == [("WARNING", "error", "4")]


def test_copies_change_nothing() -> None:
    one, two, three, cold = reading(1, HOT), reading(2, HOT), reading(3, HOT), reading(4, COLD)
    assert of_records([one, one, one, two]) == []
    assert of_records([one, two, three, three, one, cold, three, cold, two]) == [
        ("WARNING", "error", "3"),
        ("NORMAL", "info", "4"),
    ]


def test_a_reading_older_than_the_history_is_ignored() -> None:
    """The cold one would resolve what the first three opened, with all others in between."""
    found = {}
    for later in (READING_HISTORY_SIZE - 1, READING_HISTORY_SIZE):
        readings = [reading(n, HOT) for n in (1, 2, 3)]
        readings += [reading(n, WARM) for n in range(5, 5 + later)]
        found[later] = of_records([*readings, reading(4, COLD)], clear_below_c=90)[1:]
    assert found == {
        READING_HISTORY_SIZE - 1: [("NORMAL", "info", "4")],
        READING_HISTORY_SIZE: [],
    }


def test_copies_do_not_count_as_history() -> None:
    later = [reading(n, WARM) for n in range(5, 4 + READING_HISTORY_SIZE)]
    readings = [reading(n, HOT) for n in (1, 2, 3)] + later + later
    assert of_records([*readings, reading(4, COLD)], clear_below_c=90)[1:] == [
        ("NORMAL", "info", "4")
    ]


def test_racks_do_not_mix_and_each_has_its_own_rule() -> None:
    readings = [
        reading(n, 85.0, rack=name) for n in (1, 2, 3) for name in ("rack-0001", "rack-0002")
    ]
    found = overheating_alerts(
        readings, lambda name: Overheating(threshold_c=80.0 if name == "rack-0002" else 90.0)
    )
    assert [(row["subject"], row["state"]) for row in found] == [("rack-0002", "WARNING")]


def test_the_helpers_count_from_the_start_of_a_window() -> None:
    assert (T0 % 5000, reading(0).event_time) == (0, "2026-11-18T11:06:40.000Z")
