"""`weak-signal`: each sentence of its definition, on short histories."""

from events.records import RackReading
from events.rules import WeakSignal
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.weak_signal import weak_signal_alerts
from tests.builders import reading
from tests.unit.summaries import summarize

WEAK, BETWEEN, STRONG = 0.1, 0.22, 0.9


def alerts(strengths: list[float], rule: WeakSignal | None = None) -> list[tuple[str, str, str]]:
    return of_records([reading(n, signal_strength=s) for n, s in enumerate(strengths)], rule)


def of_records(
    readings: list[RackReading], rule: WeakSignal | None = None
) -> list[tuple[str, str, str]]:
    return summarize(weak_signal_alerts(readings, lambda _: rule or WeakSignal()))


def test_one_reading_below_warns_and_one_at_the_clear_strength_resolves() -> None:
    assert alerts([STRONG, WEAK, WEAK, STRONG, STRONG]) == [
        ("WARNING", "error", "1"),
        ("NORMAL", "info", "3"),
    ]


def test_strengths_in_between_change_nothing() -> None:
    assert alerts([BETWEEN, BETWEEN]) == []
    assert alerts([WEAK, BETWEEN, STRONG, BETWEEN, WEAK]) == [
        ("WARNING", "error", "0"),
        ("NORMAL", "info", "2"),
        ("WARNING", "error", "4"),
    ]


def test_a_warning_needs_less_than_the_limit_and_its_end_the_clear_strength() -> None:
    opening = {strength: [state for state, *_ in alerts([strength])] for strength in (0.2, 0.1999)}
    assert opening == {0.2: [], 0.1999: ["WARNING"]}
    closing = {s: [state for state, *_ in alerts([WEAK, s])[1:]] for s in (0.2, 0.2499, 0.25)}
    assert closing == {0.2: [], 0.2499: [], 0.25: ["NORMAL"]}


def test_the_rule_sets_both_strengths_and_the_severity() -> None:
    rule = WeakSignal(below=0.5, clear_at=0.5, severity="warning")
    assert alerts([0.49, 0.5], rule) == [("WARNING", "warning", "0"), ("NORMAL", "info", "1")]


def test_the_evidence_is_the_deciding_reading_with_its_strength() -> None:
    assert weak_signal_alerts([reading(3, 71.5, signal_strength=0.15)], lambda _: WeakSignal()) == [
        {
            "alert_id": alert_id("weak-signal", "rack-0001", "WARNING", "error", "rack-0001/3"),
            "rule": "weak-signal",
            "subject": "rack-0001",
            "site_id": "site-a",
            "state": "WARNING",
            "severity": "error",
            "event_time": "2026-11-18T11:06:43.000Z",
            "evidence": [
                {
                    "event_id": "rack-0001/3",
                    "sequence": 3,
                    "event_time": "2026-11-18T11:06:43.000Z",
                    "temperature_c": 71.5,
                    "signal_strength": 0.15,
                }
            ],
        }
    ]


def test_the_latest_reading_is_by_sequence_not_by_arrival() -> None:
    strong, weak = reading(5, signal_strength=STRONG), reading(4, signal_strength=WEAK)
    assert of_records([strong, weak]) == []
    assert of_records([weak, strong]) == [("WARNING", "error", "4"), ("NORMAL", "info", "5")]


def test_of_two_readings_with_one_sequence_the_greater_id_is_later() -> None:
    weak, strong = (
        reading(1, 70, signal_strength=WEAK, event_id="a"),
        reading(1, 70, signal_strength=STRONG, event_id="b"),
    )
    assert of_records([strong, weak]) == []
    assert of_records([weak, strong]) == [("WARNING", "error", "1"), ("NORMAL", "info", "1")]


def test_event_time_does_not_matter() -> None:
    readings = [
        reading(1, 70, signal_strength=WEAK, at_s=9000),
        reading(2, 70, signal_strength=STRONG, at_s=0),
    ]
    assert of_records(readings) == [("WARNING", "error", "9000"), ("NORMAL", "info", "0")]


def test_copies_change_nothing() -> None:
    weak, strong = reading(1, 70, signal_strength=WEAK), reading(2, 70, signal_strength=STRONG)
    assert of_records([weak, weak, weak, strong, weak, strong, weak]) == [
        ("WARNING", "error", "1"),
        ("NORMAL", "info", "2"),
    ]


def test_racks_do_not_mix() -> None:
    readings = [
        reading(1, 70, signal_strength=WEAK, rack="rack-0002"),
        reading(2, 70, signal_strength=STRONG, rack="rack-0001"),
    ]
    found = weak_signal_alerts(readings, lambda _: WeakSignal())
    assert [(row["subject"], row["state"]) for row in found] == [("rack-0002", "WARNING")]
