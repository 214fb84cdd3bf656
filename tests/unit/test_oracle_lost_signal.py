"""`lost-signal`: each sentence of its definition, on a short history."""

from collections.abc import Iterable
from typing import Any

from events.records import RackReading
from events.rules import LostSignal, Rules
from producer.expected.oracles.lost_signal import lost_signal_alerts
from producer.expected.oracles.rows import alert_id
from producer.expected.oracles.rule_lookup import rule_lookup
from tests.builders import T0, rack, reading
from tests.unit.summaries import summarize

END = [reading(10_000, at_s=300.0, rack="rack-end")]
"""A reading that closes all earlier windows; its own rack's first window gives no result."""


def at(*seconds: float, rack: str = "rack-0001") -> list[RackReading]:
    return [reading(n, at_s=s, rack=rack, event_id=f"{rack}@{s}") for n, s in enumerate(seconds)]


def window(start_s: float, count: int, rack: str = "rack-0001") -> list[RackReading]:
    """Return so many readings in a window of 5 s."""
    return at(*(start_s + 5 * n / count for n in range(count)), rack=rack)


def of(
    readings: Iterable[RackReading], rule: LostSignal | None = None, **options: Any
) -> list[Any]:
    """Return the alerts of readings in topic order, all appended at the same time."""
    records = [(one, T0 + 1_000_000) for one in readings]
    return summarize(lost_signal_alerts(records, lambda _: rule or LostSignal(), **options))


def test_fewer_than_five_readings_in_five_seconds_warn_and_enough_resolve() -> None:
    readings = [*window(0, 5), *window(5, 4), *window(10, 1), *window(15, 5), *window(20, 9), *END]
    assert of(readings) == [("WARNING", "error", "10"), ("NORMAL", "info", "20")]


def test_the_window_triggers_the_alert() -> None:
    (row,) = lost_signal_alerts(
        [(one, T0 + 1_000_000) for one in [*window(0, 5), *window(5, 4), *END]],
        lambda _: LostSignal(),
    )
    assert row == {
        "alert_id": alert_id(
            "lost-signal", "rack-0001", "WARNING", "error", "2026-11-18T11:06:45.000Z"
        ),
        "rule": "lost-signal",
        "subject": "rack-0001",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:06:50.000Z",
        "evidence": [],
    }


def test_windows_are_aligned_to_1970_and_exclude_their_end() -> None:
    rule = LostSignal(readings=2, window_s=7.0)
    assert T0 % 7000 == 3000, "a window ends at second 4, the next at 11"
    assert of([*at(0, 1), *at(4, 10.999), *at(11, 12), *END], rule) == []
    assert of([*at(0, 1), *at(3.999), *at(10.999), *END], rule) == [("WARNING", "error", "11")]
    assert of([*at(0, 1), *at(4), *at(11), *END], rule) == [("WARNING", "error", "11")]


def test_a_racks_first_window_gives_no_alert() -> None:
    assert of([*window(0, 1), *END]) == []
    assert of([*window(0, 1), *window(5, 1), *END]) == [("WARNING", "error", "10")]


def test_the_first_window_is_the_earliest_by_event_time() -> None:
    assert of([*window(5, 2), *window(0, 1), *END]) == [("WARNING", "error", "10")]


def test_a_window_without_readings_gives_no_alert() -> None:
    assert of([*window(0, 5), *window(20, 5), *END]) == []
    assert of([*window(0, 5), *window(5, 1), *window(25, 5), *END]) == [
        ("WARNING", "error", "10"),
        ("NORMAL", "info", "30"),
    ]


def test_a_window_closes_when_the_fleets_watermark_reaches_its_end() -> None:
    readings = [*window(0, 5), *window(5, 4)]
    assert of([*readings, *at(39.999, rack="rack-end")]) == []
    assert of([*readings, *at(40.0, rack="rack-end")]) == [("WARNING", "error", "10")]


def test_the_fleets_latest_time_and_the_watermark_can_be_given() -> None:
    readings = [*window(0, 5), *window(5, 4)]
    assert of(readings) == []
    assert of(readings, until_ms=T0 + 39_999) == []
    assert of(readings, until_ms=T0 + 40_000) == [("WARNING", "error", "10")]
    assert of(readings, until_ms=T0 + 15_000, watermark_ms=5000) == [("WARNING", "error", "10")]


def test_copies_do_not_count() -> None:
    assert of([*window(0, 5), *window(5, 4), *window(5, 4), *END]) == [("WARNING", "error", "10")]


def test_a_reading_out_of_order_counts() -> None:
    early = window(5, 5)
    assert of([*window(0, 5), *early[:4], *window(10, 5), early[4], *END]) == []


def test_a_reading_beyond_the_watermark_by_its_own_racks_latest_does_not_count() -> None:
    """In one batch the fleet's latest time does not matter; the late reading is at second 9."""
    early = window(5, 5)
    states = {}
    for later_s in (39, 39.001):
        readings = [*window(0, 5), *early[:4], *window(35, 5), *at(later_s), early[4], *END]
        states[later_s] = [state for state, *_ in of(readings, single_batch=True)][:1]
    assert states == {39: [], 39.001: ["WARNING"]}


def test_a_reading_of_the_future_does_not_make_the_next_one_late() -> None:
    future = reading(99, at_s=400)
    records = [
        *((one, T0 + 10_000) for one in [*window(0, 5), *window(5, 4), future, *at(9)]),
        *((one, T0 + 1_000_000) for one in [*window(10, 5), *END]),
    ]
    assert summarize(lost_signal_alerts(records, lambda _: LostSignal(), single_batch=True)) == []


def test_a_reading_more_than_five_minutes_ahead_of_its_append_time_is_left_out() -> None:
    """The reading at second 400 closes the window of four readings, unless it is left out."""
    records = [(one, T0 + 99_000) for one in [*window(0, 5), *window(5, 4)]]
    states = {}
    for append_s in (100, 99.999):
        last = reading(1, at_s=400, rack="rack-end"), T0 + round(1000 * append_s)
        found = summarize(lost_signal_alerts([*records, last], lambda _: LostSignal()))
        states[append_s] = [state for state, *_ in found]
    assert states == {100: ["WARNING"], 99.999: []}


def test_racks_do_not_mix() -> None:
    readings = [
        *window(0, 5),
        *window(0, 5, "rack-0002"),
        *window(5, 3),
        *window(5, 5, "rack-0002"),
        *END,
    ]
    found = lost_signal_alerts([(one, T0 + 1_000_000) for one in readings], lambda _: LostSignal())
    assert [(row["subject"], row["state"]) for row in found] == [("rack-0001", "WARNING")]


def test_half_of_a_slow_racks_readings_are_enough() -> None:
    enough = {
        (4.0, 5.0, 5): 5,
        (2.0, 5.0, 5): 5,
        (1.0, 5.0, 5): 2,
        (1.0, 10.0, 8): 5,
        (0.3, 5.0, 5): 0,
        (100, 5, 9): 9,
    }
    found = {}
    for per_second, window_s, configured in enough:
        rules = Rules((LostSignal(readings=configured, window_s=window_s),))
        inventory = {"rack-0001": rack("rack-0001", readings_per_second=per_second)}
        rule_for = rule_lookup(LostSignal, rules, inventory)
        found[per_second, window_s, configured] = rule_for("rack-0001").readings
        assert rule_for("rack-0002").readings == configured, "a rack outside the inventory"
    assert found == enough


def test_a_rack_that_needs_one_reading_never_warns() -> None:
    rule_for = rule_lookup(
        LostSignal, Rules(), {"rack-0001": rack("rack-0001", readings_per_second=0.4)}
    )
    records = [
        (one, T0 + 1_000_000) for one in [*window(0, 3), *window(5, 1), *window(10, 1), *END]
    ]
    assert lost_signal_alerts(records, rule_for) == []


FLEET_AHEAD = at(60, rack="rack-end")
"""After it, readings at second 30 or earlier are beyond the fleet's watermark."""


def test_a_reading_beyond_only_the_fleets_watermark_makes_its_window_indeterminate() -> None:
    early = window(5, 5)
    readings = [*window(0, 5), *early[:4], *FLEET_AHEAD, early[4], *END]
    assert of(readings) == [("WARNING?", "error", "10")]
    assert of(readings, single_batch=True) == []


def test_the_bound_of_indeterminate_readings_is_the_watermark_itself() -> None:
    early = window(25, 5)
    readings = [*window(0, 5), *early[:4], *at(59.0, rack="rack-end"), early[4], *END]
    assert of(readings) == [("WARNING?", "error", "30")]
    readings = [*window(0, 5), *early[:4], *at(58.999, rack="rack-end"), early[4], *END]
    assert of(readings) == []


def test_such_a_reading_does_not_matter_where_the_result_is_the_same() -> None:
    early = window(5, 7)
    assert of([*window(0, 5), *early[:5], *FLEET_AHEAD, *early[5:], *END]) == []
    few = window(5, 3)
    assert of([*window(0, 5), *few[:2], *FLEET_AHEAD, few[2], *END]) == [("WARNING", "error", "10")]
    assert of([*window(0, 5), *few, *FLEET_AHEAD, few[2], *END]) == [("WARNING", "error", "10")]


def test_later_alerts_are_indeterminate_until_the_state_is_certain_again() -> None:
    early = window(5, 5)
    late = [*early[:4], *FLEET_AHEAD, early[4]]
    assert of([*window(0, 5), *late, *window(70, 5), *window(75, 1), *window(80, 1), *END]) == [
        ("WARNING?", "error", "10"),
        ("NORMAL?", "info", "75"),
        ("WARNING", "error", "80"),
    ]


def test_an_indeterminate_window_may_be_the_first_or_missing() -> None:
    """If the early reading counts, its window is the first; if not, the one after it is."""
    readings = [*FLEET_AHEAD, *window(5, 1), *window(70, 1), *window(75, 1), *END]
    assert of(readings) == [("WARNING?", "error", "75"), ("WARNING?", "error", "80")]
    assert of([*window(0, 5), *FLEET_AHEAD, *window(5, 1), *window(70, 5), *END]) == [
        ("WARNING?", "error", "10"),
        ("NORMAL?", "info", "75"),
    ]


def test_no_readings_give_no_alerts() -> None:
    assert of([]) == []
