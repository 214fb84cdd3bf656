"""The contract's overheating rule on histories written by hand, each with the alerts that must come out."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from events.records import RackReading
from events.times import to_text
from producer.oracle import alert_id, overheating_alerts

T0 = 1_795_000_000_000
HOT, COLD = 101.0, 70.0


def reading(sequence: int, temperature_c: float, rack: str = "rack-0001", event_id: str = "") -> RackReading:
    return RackReading(
        event_id=event_id or f"{rack}/{sequence}",
        event_time=to_text(T0 + 1000 * sequence),
        rack_id=rack,
        sequence=sequence,
        site_id="site-a",
        device_type="gpu-server",
        temperature_c=temperature_c,
        signal_strength=1.0,
    )


def changes(readings: list[RackReading], thresholds: dict[str, float] | None = None) -> list[tuple[str, str]]:
    """Return (state, decider's number within its rack) of each alert."""
    alerts = overheating_alerts(readings, thresholds or {})
    by_time = {r.event_time: r.event_id for r in readings}
    return [(alert["state"], by_time[alert["event_time"]].rpartition("/")[2]) for alert in alerts]


def test_the_third_hot_reading_in_a_row_warns_and_the_first_cold_one_ends_it() -> None:
    temperatures = [HOT, HOT, HOT, HOT, COLD, HOT, HOT, COLD]
    assert changes([reading(n, c) for n, c in enumerate(temperatures)]) == [("WARNING", "2"), ("NORMAL", "4")]


def test_an_alert_has_every_field_of_the_output_that_is_not_the_jobs_own() -> None:
    assert overheating_alerts([reading(n, HOT) for n in (1, 2, 3)], {}) == [
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


def test_the_id_is_the_first_half_of_the_sha256_of_what_decided() -> None:
    # printf 'rack-overheating|rack-0001|WARNING|error|rack-0001/3' | sha256sum
    assert (
        alert_id("rack-overheating", "rack-0001", "WARNING", "error", "rack-0001/3")
        == "d2730a87e72fb186407e6c260d2fa210"
    )


def test_a_temperature_at_the_threshold_is_hot() -> None:
    assert changes([reading(n, 90.0) for n in range(3)], {"rack-0001": 90.0}) == [("WARNING", "2")]
    assert changes([reading(n, 89.99) for n in range(3)], {"rack-0001": 90.0}) == []


def test_a_rack_without_threshold_has_one_hundred_degrees() -> None:
    assert changes([reading(n, 100.0) for n in range(3)], {"rack-0002": 20.0}) == [("WARNING", "2")]


def test_a_warnings_severity_may_be_the_racks() -> None:
    readings = [
        reading(n, HOT if n < 3 else COLD, rack) for n in range(4) for rack in ("rack-0001", "rack-0002")
    ]
    found = overheating_alerts(readings, {}, {"rack-0002": "critical"})
    assert [alert["severity"] for alert in found] == ["error", "critical", "info", "info"]


def test_copies_change_nothing() -> None:
    first, second = reading(1, HOT), reading(2, HOT)
    assert changes([first, second, second, second, first]) == []
    third, cold = reading(3, HOT), reading(4, COLD)
    readings = [first, second, third, third, cold, third, second, cold]
    assert changes(readings) == [("WARNING", "3"), ("NORMAL", "4")]


def test_readings_count_in_order_of_their_sequence_not_of_their_arrival() -> None:
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


def test_a_wrong_clock_does_not_matter() -> None:
    readings = [reading(n, HOT) for n in (1, 2, 3)]
    readings[1] = RackReading(**{f: getattr(readings[1], f) for f in readings[1].__struct_fields__})
    readings[1].event_time = to_text(T0 + 5 * 3_600_000)
    assert [alert["state"] for alert in overheating_alerts(readings, {})] == ["WARNING"]


def test_of_two_readings_with_one_sequence_the_greater_id_is_the_later() -> None:
    twins = [reading(3, COLD, event_id="a/3"), reading(3, HOT, event_id="b/3")]
    start = [reading(1, HOT), reading(2, HOT)]
    end = [reading(4, HOT), reading(5, HOT)]
    states = [
        [a["state"] for a in overheating_alerts([*start, *order, *end], {})] for order in (twins, twins[::-1])
    ]
    # Both end with b/3, 4, 5. In the second, b/3 comes first and makes 1, 2, b/3 for a moment.
    assert states == [["WARNING"], ["WARNING", "NORMAL", "WARNING"]]


def test_racks_do_not_mix() -> None:
    readings = [reading(n, HOT, rack) for n in (1, 2, 3) for rack in ("rack-0001", "rack-0002")]
    assert [(a["subject"], a["event_time"]) for a in overheating_alerts(readings, {"rack-0002": 120.0})] == [
        ("rack-0001", to_text(T0 + 3000))
    ]


temperatures = st.lists(st.sampled_from([COLD, HOT, 99.99, 100.0]), min_size=1, max_size=12)


def final_state(alerts: list[dict[str, Any]]) -> str:
    return str(alerts[-1]["state"]) if alerts else "NORMAL"


@settings(max_examples=200, deadline=None)
@given(temperatures, st.randoms(use_true_random=False), st.data())
def test_where_a_rack_ends_depends_on_its_set_of_readings_only(
    celsius: list[float], random: Any, data: st.DataObject
) -> None:
    readings = [reading(n, c) for n, c in enumerate(celsius)]
    extra = data.draw(st.lists(st.sampled_from(readings), max_size=6))
    shuffled = [*readings, *extra]
    random.shuffle(shuffled)
    alerts = overheating_alerts(shuffled, {})
    hot = len(celsius) >= 3 and all(c >= 100 for c in celsius[-3:])
    assert final_state(alerts) == ("WARNING" if hot else "NORMAL")
    assert all(a["state"] == ("WARNING", "NORMAL")[place % 2] for place, a in enumerate(alerts))
    assert len({a["alert_id"] for a in alerts}) == len(alerts)


@settings(deadline=None)
@given(temperatures, st.data())
def test_copies_after_their_original_change_no_alert(celsius: list[float], data: st.DataObject) -> None:
    readings = [reading(n, c) for n, c in enumerate(celsius)]
    with_copies = list(readings)
    for original in data.draw(st.lists(st.sampled_from(readings), max_size=6)):
        after = with_copies.index(original) + 1
        with_copies.insert(data.draw(st.integers(after, len(with_copies))), original)
    assert overheating_alerts(with_copies, {}) == overheating_alerts(readings, {})
