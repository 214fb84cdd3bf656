"""`lost-signal`: each sentence of its rules on a history written by hand, second by second."""

from collections.abc import Iterable
from typing import Any

import pytest

from events.records import RackReading
from events.rules import LostSignal, Rules
from producer.oracle import alert_id
from producer.rule_oracles import lost_signal_alerts, rule_of
from tests.unit.racks import T0, rack, reading, told

END = [reading(10_000, at_s=300.0, rack="rack-end")]
"""A reading that closes all windows before; its own rack's first window is never judged."""


def at(*seconds: float, rack: str = "rack-0001") -> list[RackReading]:
    return [reading(n, at_s=s, rack=rack, event_id=f"{rack}@{s}") for n, s in enumerate(seconds)]


def window(start_s: float, count: int, rack: str = "rack-0001") -> list[RackReading]:
    """Return so many readings in a window of 5 s."""
    return at(*(start_s + 5 * n / count for n in range(count)), rack=rack)


def of(readings: Iterable[RackReading], rule: LostSignal | None = None, **options: Any) -> list[Any]:
    """Return the alerts of readings that the broker had as soon as they happened, in this order."""
    records = [(one, T0 + 1_000_000) for one in readings]
    return told(lost_signal_alerts(records, lambda _: rule or LostSignal(), **options))


def test_fewer_than_five_readings_in_five_seconds_warn_and_enough_end_it() -> None:
    readings = [*window(0, 5), *window(5, 4), *window(10, 1), *window(15, 5), *window(20, 9), *END]
    assert of(readings) == [("WARNING", "error", "10"), ("NORMAL", "info", "20")]


def test_an_alert_is_decided_by_its_window() -> None:
    (row,) = lost_signal_alerts(
        [(one, T0 + 1_000_000) for one in [*window(0, 5), *window(5, 4), *END]], lambda _: LostSignal()
    )
    assert row == {
        "alert_id": alert_id("lost-signal", "rack-0001", "WARNING", "error", "2026-11-18T11:06:45.000Z"),
        "rule": "lost-signal",
        "subject": "rack-0001",
        "site_id": "site-a",
        "state": "WARNING",
        "severity": "error",
        "event_time": "2026-11-18T11:06:50.000Z",
        "evidence": [],
    }


def test_windows_begin_at_1970_and_a_reading_at_the_end_of_one_lies_in_the_next() -> None:
    rule = LostSignal(readings=2, window_s=7.0)
    assert T0 % 7000 == 3000, "a window ends at second 4, the next at 11"
    assert of([*at(0, 1), *at(4, 10.999), *at(11, 12), *END], rule) == []
    assert of([*at(0, 1), *at(3.999), *at(10.999), *END], rule) == [("WARNING", "error", "11")]
    assert of([*at(0, 1), *at(4), *at(11), *END], rule) == [("WARNING", "error", "11")]


def test_the_racks_first_window_is_not_judged() -> None:
    assert of([*window(0, 1), *END]) == []
    assert of([*window(0, 1), *window(5, 1), *END]) == [("WARNING", "error", "10")]


def test_the_first_window_is_the_earliest_not_that_of_the_first_record() -> None:
    assert of([*window(5, 2), *window(0, 1), *END]) == [("WARNING", "error", "10")]


def test_a_window_without_a_reading_is_not_judged() -> None:
    assert of([*window(0, 5), *window(20, 5), *END]) == []
    assert of([*window(0, 5), *window(5, 1), *window(25, 5), *END]) == [
        ("WARNING", "error", "10"),
        ("NORMAL", "info", "30"),
    ]


@pytest.mark.parametrize(("latest_s", "judged"), [(39.999, False), (40.0, True)])
def test_a_window_is_closed_when_the_fleet_is_at_its_end_and_the_watermark(
    latest_s: float, judged: bool
) -> None:
    readings = [*window(0, 5), *window(5, 4), *at(latest_s, rack="rack-end")]
    assert of(readings) == ([("WARNING", "error", "10")] if judged else [])


def test_the_latest_of_the_fleet_may_be_known_from_elsewhere_and_the_watermark_another() -> None:
    readings = [*window(0, 5), *window(5, 4)]
    assert of(readings) == []
    assert of(readings, until_ms=T0 + 39_999) == []
    assert of(readings, until_ms=T0 + 40_000) == [("WARNING", "error", "10")]
    assert of(readings, until_ms=T0 + 15_000, watermark_ms=5000) == [("WARNING", "error", "10")]


def test_distinct_readings_are_counted() -> None:
    assert of([*window(0, 5), *window(5, 4), *window(5, 4), *END]) == [("WARNING", "error", "10")]


def test_a_reading_that_is_out_of_order_counts() -> None:
    early = window(5, 5)
    assert of([*window(0, 5), *early[:4], *window(10, 5), early[4], *END]) == []


@pytest.mark.parametrize(("later_s", "states"), [(39, []), (39.001, ["WARNING"])])
def test_a_reading_later_than_the_watermark_by_its_own_racks_latest_does_not_count(
    later_s: float, states: list[str]
) -> None:
    """Read in one batch, so that the fleet's latest is known to nobody; the late one is the fifth, of second 9."""
    early = window(5, 5)
    readings = [*window(0, 5), *early[:4], *window(35, 5), *at(later_s), early[4], *END]
    assert [state for state, *_ in of(readings, at_once=True)][:1] == states


def test_a_dead_letter_does_not_make_the_next_reading_late() -> None:
    ahead = reading(99, at_s=400)
    records = [
        *((one, T0 + 10_000) for one in [*window(0, 5), *window(5, 4), ahead, *at(9)]),
        *((one, T0 + 1_000_000) for one in [*window(10, 5), *END]),
    ]
    assert told(lost_signal_alerts(records, lambda _: LostSignal(), at_once=True)) == []


@pytest.mark.parametrize(("append_s", "there"), [(100, True), (99.999, False)])
def test_what_lies_more_than_five_minutes_ahead_of_its_append_time_is_not_there(
    append_s: float, there: bool
) -> None:
    """The reading at second 400 closes the window of four, if it is there."""
    records = [(one, T0 + 99_000) for one in [*window(0, 5), *window(5, 4)]]
    last = reading(1, at_s=400, rack="rack-end"), T0 + round(1000 * append_s)
    found = told(lost_signal_alerts([*records, last], lambda _: LostSignal()))
    assert [state for state, *_ in found] == (["WARNING"] if there else [])


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


@pytest.mark.parametrize(
    ("per_second", "window_s", "wanted", "enough"),
    [
        (4.0, 5.0, 5, 5),
        (2.0, 5.0, 5, 5),
        (1.0, 5.0, 5, 2),
        (1.0, 10.0, 8, 5),
        (0.3, 5.0, 5, 0),
        (100, 5, 9, 9),
    ],
)
def test_a_slow_racks_half_rate_is_enough(
    per_second: float, window_s: float, wanted: int, enough: int
) -> None:
    rules = Rules((LostSignal(readings=wanted, window_s=window_s),))
    inventory = {"rack-0001": rack("rack-0001", readings_per_second=per_second)}
    asked = rule_of(LostSignal, rules, inventory)
    assert asked("rack-0001").readings == enough
    assert asked("rack-0002").readings == wanted, "a rack that the inventory does not name"


def test_a_rack_of_which_one_reading_is_enough_never_warns() -> None:
    asked = rule_of(LostSignal, Rules(), {"rack-0001": rack("rack-0001", readings_per_second=0.4)})
    records = [(one, T0 + 1_000_000) for one in [*window(0, 3), *window(5, 1), *window(10, 1), *END]]
    assert lost_signal_alerts(records, asked) == []


FLEET_AHEAD = at(60, rack="rack-end")
"""From here on, what is at second 30 or before is beyond the fleet's watermark."""


def test_a_reading_beyond_the_fleets_watermark_only_leaves_its_window_in_doubt() -> None:
    early = window(5, 5)
    readings = [*window(0, 5), *early[:4], *FLEET_AHEAD, early[4], *END]
    assert of(readings) == [("WARNING?", "error", "10")]
    assert of(readings, at_once=True) == []


def test_it_is_in_doubt_at_the_watermark_itself_and_not_after_it() -> None:
    early = window(25, 5)
    readings = [*window(0, 5), *early[:4], *at(59.0, rack="rack-end"), early[4], *END]
    assert of(readings) == [("WARNING?", "error", "30")]
    readings = [*window(0, 5), *early[:4], *at(58.999, rack="rack-end"), early[4], *END]
    assert of(readings) == []


def test_such_a_reading_leaves_none_in_doubt_where_it_does_not_matter() -> None:
    early = window(5, 7)
    assert of([*window(0, 5), *early[:5], *FLEET_AHEAD, *early[5:], *END]) == []
    few = window(5, 3)
    assert of([*window(0, 5), *few[:2], *FLEET_AHEAD, few[2], *END]) == [("WARNING", "error", "10")]
    assert of([*window(0, 5), *few, *FLEET_AHEAD, few[2], *END]) == [("WARNING", "error", "10")]


def test_what_follows_from_a_doubt_is_in_doubt_until_the_state_is_sure_again() -> None:
    early = window(5, 5)
    late = [*early[:4], *FLEET_AHEAD, early[4]]
    assert of([*window(0, 5), *late, *window(70, 5), *window(75, 1), *window(80, 1), *END]) == [
        ("WARNING?", "error", "10"),
        ("NORMAL?", "info", "75"),
        ("WARNING", "error", "80"),
    ]


def test_a_doubtful_window_may_be_the_first_or_not_be_at_all() -> None:
    """If the early reading counts, its window is the first; if not, the one after it is."""
    readings = [*FLEET_AHEAD, *window(5, 1), *window(70, 1), *window(75, 1), *END]
    assert of(readings) == [("WARNING?", "error", "75"), ("WARNING?", "error", "80")]
    assert of([*window(0, 5), *FLEET_AHEAD, *window(5, 1), *window(70, 5), *END]) == [
        ("WARNING?", "error", "10"),
        ("NORMAL?", "info", "75"),
    ]


def test_nothing_of_nothing() -> None:
    assert of([]) == []
