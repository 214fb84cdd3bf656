"""The overheating rule over one rack's readings, against the oracle and the contract's words."""

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from events.records import RackReading
from events.rules import READING_HISTORY_SIZE, Overheating, Rules
from events.times import to_ms
from producer.expected.oracles.overheating import overheating_alerts
from producer.expected.oracles.rows import alert_id
from spark_jobs.rules.overheating.limits import Limits, fleet_limits
from spark_jobs.rules.overheating.rack_history import RackHistory, Reading
from tests.builders import rack, reading
from tests.spark.overheating_histories import (
    AT,
    COLD,
    HOT,
    Change,
    changes_by_the_contract,
    histories,
    rules,
)
from tests.support import examples

BELOW = 99.99


def limits_of(rule: Overheating) -> Limits:
    """Return the limits of a rack that is not in the inventory."""
    return fleet_limits((), Rules((rule,))).default


def as_kept(taken: RackReading, limits: Limits) -> Reading:
    """Return a reading as the state keeps it."""
    return Reading(
        taken.sequence,
        taken.event_id,
        to_ms(taken.event_time) * 1000,
        taken.temperature_c,
        taken.temperature_c >= limits.threshold_c,
    )


def changes(history: list[RackReading], rule: Overheating | None = None) -> list[Change]:
    """Return the changes by the state under test, which is stored and loaded after each reading."""
    limits = limits_of(rule or Overheating())
    found: list[Change] = []
    rack = RackHistory(limits)
    for taken in history:
        rack = RackHistory(limits, rack.readings, rack.memory)
        if rack.add(as_kept(taken, limits)):
            found.append((taken.event_id, rack.severity, [one.event_id for one in rack.evidence]))
        assert len(rack.readings) <= limits.history_size
        assert rack.readings == sorted(rack.readings)
    return found


def by_id(found: list[Change]) -> list[tuple[str, list[str]]]:
    """Return each change as the alert's id and the ids of the evidence."""
    return [
        (
            alert_id(
                "rack-overheating",
                "rack-0001",
                "WARNING" if severity else "NORMAL",
                severity or "info",
                trigger,
            ),
            evidence,
        )
        for trigger, severity, evidence in found
    ]


def expected(
    history: list[RackReading], rule: Overheating | None = None
) -> list[tuple[str, list[str]]]:
    """Return the oracle's alerts in the same form."""
    return [
        (alert["alert_id"], [one["event_id"] for one in alert["evidence"]])
        for alert in overheating_alerts(history, lambda _: rule or Overheating())
    ]


def test_three_readings_at_the_threshold_warn_and_one_just_below_ends_it() -> None:
    history = [reading(n, celsius) for n, celsius in enumerate([AT, AT, AT, BELOW])]
    assert changes(history) == [
        ("rack-0001/2", "error", ["rack-0001/0", "rack-0001/1", "rack-0001/2"]),
        ("rack-0001/3", None, ["rack-0001/1", "rack-0001/2", "rack-0001/3"]),
    ]


def test_a_copy_does_not_count_as_a_third_reading() -> None:
    one, two = reading(1, HOT), reading(2, HOT)
    assert changes([one, two, two, one, one]) == []


def test_a_late_reading_corrects_the_state() -> None:
    history = [reading(1, HOT), reading(2, HOT), reading(4, HOT), reading(3, COLD)]
    assert changes(history) == [
        ("rack-0001/4", "error", ["rack-0001/1", "rack-0001/2", "rack-0001/4"]),
        ("rack-0001/3", None, ["rack-0001/2", "rack-0001/3", "rack-0001/4"]),
    ]


def test_a_reading_older_than_those_that_are_kept_is_ignored() -> None:
    limits = Limits()
    rack = RackHistory(limits, [as_kept(reading(n, HOT), limits) for n in (5, 6, 7)])
    assert not rack.add(as_kept(reading(4, COLD), limits))
    assert [kept.sequence for kept in rack.readings] == [5, 6, 7]


@examples(400)
@given(histories())
def test_with_default_settings_the_state_machine_is_the_rule_of_the_contract(
    history: list[RackReading],
) -> None:
    assert changes(history) == changes_by_the_contract(history)
    assert expected(history) == by_id(changes_by_the_contract(history))


@examples(500)
@given(histories(), rules())
def test_with_any_rule_the_changes_are_the_oracles(
    history: list[RackReading], rule: Overheating
) -> None:
    assert by_id(changes(history, rule)) == expected(history, rule)


@examples(300)
@given(histories(max_readings=10), rules(), st.randoms(use_true_random=False))
def test_a_shuffled_history_gives_the_changes_of_the_oracle(
    history: list[RackReading], rule: Overheating, random: Random
) -> None:
    random.shuffle(history)
    assert by_id(changes(history, rule)) == expected(history, rule)


def test_a_rule_without_memory_keeps_its_count_and_another_32() -> None:
    plain: dict[str, Any] = {"severity": "info", "racks": (), "device_types": ()}
    for option in Overheating.__struct_fields__:
        rule = Overheating(**{"count": 5} | {option: plain.get(option, 8)})
        with_memory = option in ("within_s", "clear_below_c", "rising", "critical_after_s")
        size = READING_HISTORY_SIZE if with_memory else rule.count
        assert limits_of(rule).history_size == size, option
        # By this the job chooses its plan.
        assert rule.option_with_memory == (option if with_memory else None)


def test_a_rack_in_normal_after_cold_readings_has_no_memory() -> None:
    limits = limits_of(Overheating(clear_below_c=90.0))
    rack = RackHistory(limits)
    for n in range(40):
        rack.add(as_kept(reading(n, HOT if n == 3 else COLD), limits))
    assert rack.memory is None
    for n in range(40, 43):
        rack.add(as_kept(reading(n, HOT), limits))
    assert rack.memory is not None


def test_a_warning_of_a_rule_with_memory_ends_after_its_rack_has_moved_to_one_without() -> None:
    held = Overheating(clear_below_c=90.0)
    rack = RackHistory(limits_of(held))
    for n, celsius in enumerate((HOT, HOT, HOT, 95.0)):
        rack.add(as_kept(reading(n, celsius), limits_of(held)))
    assert rack.severity == "error"
    found = []
    limits = limits_of(Overheating())
    for n, celsius in enumerate((HOT, HOT, BELOW, BELOW), start=4):
        rack = RackHistory(limits, rack.readings, rack.memory)
        found.append((rack.add(as_kept(reading(n, celsius), limits)), rack.severity))
    assert found == [(False, "error"), (False, "error"), (True, None), (False, None)]
    assert rack.memory is None


def test_limits_come_from_the_first_rule_then_the_inventory_then_the_defaults() -> None:
    inventory = [
        rack("rack-0001", threshold_c=85.0, severity="warning"),
        rack("rack-0002", threshold_c=100.0),
        rack("rack-0003", threshold_c=85.0, severity="warning", device_type="storage"),
    ]
    rules = Rules(
        (
            Overheating(device_types=("storage",), threshold_c=70.0, severity="critical", count=5),
            Overheating(racks=("rack-0002", "rack-0003"), within_s=1.5),
        )
    )
    found = fleet_limits(inventory, rules)
    assert found.default == Limits()
    assert found.by_rack == {
        "rack-0001": Limits(85.0, severity="warning"),
        "rack-0002": Limits(within_us=1_500_000),
        "rack-0003": Limits(70.0, count=5, severity="critical"),
    }
    for_all = fleet_limits(inventory, Rules((Overheating(count=2),)))
    assert for_all.default == Limits(count=2)
    assert for_all.by_rack["rack-0001"] == Limits(85.0, count=2, severity="warning")
    assert "rack-0002" not in for_all.by_rack
