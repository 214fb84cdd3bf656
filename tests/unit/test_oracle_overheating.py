"""The contract's overheating rule on short histories, each with its expected alerts."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from events.records import RackReading
from events.rules import Overheating
from events.times import to_text
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rows import alert_id
from tests.builders import T0, reading, rules_by_threshold
from tests.support import examples

HOT, COLD = 101.0, 70.0


def changes(
    readings: list[RackReading], thresholds: dict[str, float] | None = None
) -> list[tuple[str, str]]:
    """Return each alert's state and the number of the reading that triggered it."""
    alerts = overheating_alerts(readings, rules_by_threshold(thresholds or {}))
    by_time = {r.event_time: r.event_id for r in readings}
    return [(alert["state"], by_time[alert["event_time"]].rpartition("/")[2]) for alert in alerts]


def test_the_third_consecutive_hot_reading_warns_and_the_first_cold_one_resolves() -> None:
    temperatures = [HOT, HOT, HOT, HOT, COLD, HOT, HOT, COLD]
    assert changes([reading(n, c) for n, c in enumerate(temperatures)]) == [
        ("WARNING", "2"),
        ("NORMAL", "4"),
    ]


def test_an_alert_has_every_output_field_except_those_that_the_job_decides() -> None:
    assert overheating_alerts([reading(n, HOT) for n in (1, 2, 3)]) == [
        {
            "alert_id": "d2730a87e72fb186407e6c260d2fa210",
            "rule": "rack-overheating",
            "subject": "rack-0001",
            "site_id": "site-a",
            "state": "WARNING",
            "severity": "error",
            "event_time": "2026-11-18T11:06:43.000Z",
            "evidence": [
                {
                    "event_id": f"rack-0001/{n}",
                    "sequence": n,
                    "event_time": f"2026-11-18T11:06:4{n}.000Z",
                    "temperature_c": HOT,
                }
                for n in (1, 2, 3)
            ],
        }
    ]


def test_the_id_is_half_of_the_sha256_of_rule_subject_state_severity_and_trigger() -> None:
    # printf 'rack-overheating|rack-0001|WARNING|error|rack-0001/3' | sha256sum
    assert (
        alert_id("rack-overheating", "rack-0001", "WARNING", "error", "rack-0001/3")
        == "d2730a87e72fb186407e6c260d2fa210"
    )


def test_a_temperature_at_the_threshold_is_hot() -> None:
    assert changes([reading(n, 90.0) for n in range(3)], {"rack-0001": 90.0}) == [("WARNING", "2")]
    assert changes([reading(n, 89.99) for n in range(3)], {"rack-0001": 90.0}) == []


def test_a_rack_without_a_threshold_has_100_degrees() -> None:
    assert changes([reading(n, 100.0) for n in range(3)], {"rack-0002": 20.0}) == [("WARNING", "2")]


def test_a_rack_may_set_the_severity_of_its_warnings() -> None:
    readings = [
        reading(n, HOT if n < 3 else COLD, rack=rack)
        for n in range(4)
        for rack in ("rack-0001", "rack-0002")
    ]
    found = overheating_alerts(
        readings, lambda rack: Overheating(severity="critical" if rack == "rack-0002" else None)
    )
    assert [alert["severity"] for alert in found] == ["error", "critical", "info", "info"]


def test_copies_change_nothing() -> None:
    first, second = reading(1, HOT), reading(2, HOT)
    assert changes([first, second, second, second, first]) == []
    third, cold = reading(3, HOT), reading(4, COLD)
    readings = [first, second, third, third, cold, third, second, cold]
    assert changes(readings) == [("WARNING", "3"), ("NORMAL", "4")]


def test_readings_are_ordered_by_sequence_not_by_arrival() -> None:
    readings = [reading(n, HOT if n != 2 else COLD) for n in (1, 3, 2, 4, 5)]
    assert changes(readings) == [("WARNING", "5")]


def test_a_late_reading_corrects_the_state() -> None:
    late_cold = [reading(1, HOT), reading(2, HOT), reading(4, HOT), reading(3, COLD)]
    assert changes(late_cold) == [("WARNING", "4"), ("NORMAL", "3")]
    late_hot = [reading(1, COLD), reading(2, HOT), reading(4, HOT), reading(3, HOT)]
    assert changes(late_hot) == [("WARNING", "3")]


def test_a_reading_older_than_the_last_three_changes_nothing() -> None:
    readings = [reading(n, HOT) for n in (2, 3, 4)]
    assert changes([*readings, reading(1, COLD)]) == [("WARNING", "4")]


def test_missing_readings_change_nothing_by_themselves() -> None:
    assert changes([reading(n, HOT) for n in (1, 500, 1_000_000)]) == [("WARNING", "1000000")]


def test_event_time_does_not_matter() -> None:
    readings = [reading(n, HOT) for n in (1, 2, 3)]
    readings[1] = RackReading(**{f: getattr(readings[1], f) for f in readings[1].__struct_fields__})
    readings[1].event_time = to_text(T0 + 5 * 3_600_000)
    assert [alert["state"] for alert in overheating_alerts(readings)] == ["WARNING"]


def test_of_two_readings_with_one_sequence_the_greater_id_is_later() -> None:
    twins = [reading(3, COLD, event_id="a/3"), reading(3, HOT, event_id="b/3")]
    start = [reading(1, HOT), reading(2, HOT)]
    end = [reading(4, HOT), reading(5, HOT)]
    states = [
        [a["state"] for a in overheating_alerts([*start, *order, *end])]
        for order in (twins, twins[::-1])
    ]
    # Both end with b/3, 4, 5. In the second, b/3 comes first and makes 1, 2, b/3 for a moment.
    assert states == [["WARNING"], ["WARNING", "NORMAL", "WARNING"]]


def test_racks_do_not_mix() -> None:
    readings = [
        reading(n, HOT, rack=rack) for n in (1, 2, 3) for rack in ("rack-0001", "rack-0002")
    ]
    assert [
        (a["subject"], a["event_time"])
        for a in overheating_alerts(readings, rules_by_threshold({"rack-0002": 120.0}))
    ] == [("rack-0001", to_text(T0 + 3000))]


temperatures = st.lists(st.sampled_from([COLD, HOT, 99.99, 100.0]), min_size=1, max_size=12)


def final_state(alerts: list[dict[str, Any]]) -> str:
    return str(alerts[-1]["state"]) if alerts else "NORMAL"


@examples(200)
@given(temperatures, st.randoms(use_true_random=False), st.data())
def test_the_final_state_depends_only_on_the_set_of_readings(
    celsius: list[float], random: Any, data: st.DataObject
) -> None:
    readings = [reading(n, c) for n, c in enumerate(celsius)]
    extra = data.draw(st.lists(st.sampled_from(readings), max_size=6))
    shuffled = [*readings, *extra]
    random.shuffle(shuffled)
    alerts = overheating_alerts(shuffled)
    hot = len(celsius) >= 3 and all(c >= 100 for c in celsius[-3:])
    assert final_state(alerts) == ("WARNING" if hot else "NORMAL")
    assert all(a["state"] == ("WARNING", "NORMAL")[place % 2] for place, a in enumerate(alerts))
    assert len({a["alert_id"] for a in alerts}) == len(alerts)


@given(temperatures, st.data())
def test_copies_after_their_original_change_no_alert(
    celsius: list[float], data: st.DataObject
) -> None:
    readings = [reading(n, c) for n, c in enumerate(celsius)]
    with_copies = list(readings)
    for original in data.draw(st.lists(st.sampled_from(readings), max_size=6)):
        after = with_copies.index(original) + 1
        with_copies.insert(data.draw(st.integers(after, len(with_copies))), original)
    assert overheating_alerts(with_copies) == overheating_alerts(readings)
