"""The rule that applies to a rack: the first that matches, completed from the inventory."""

from events.rules import Overheating, Rules, SilentSensor, WeakSignal
from producer.expected.oracles.rule_lookup import rule_lookup
from tests.builders import rack

INVENTORY = {
    "rack-0001": rack("rack-0001", severity="warning"),
    "rack-0002": rack("rack-0002", device_type="storage-array", threshold_c=75.0),
}


RACKS = ("rack-0001", "rack-0002", "rack-0003")
"""The last one is not in the inventory."""


def test_a_rule_without_threshold_or_severity_takes_the_racks() -> None:
    found = [rule_lookup(Overheating, Rules(), INVENTORY)(rack_id) for rack_id in RACKS]
    assert [(rule.threshold_c, rule.severity) for rule in found] == [
        (90.0, "warning"),
        (75.0, "error"),
        (None, "error"),
    ]
    rules = Rules((Overheating(threshold_c=60.0, severity="critical"),))
    rule = rule_lookup(Overheating, rules, INVENTORY)("rack-0001")
    assert (rule.threshold_c, rule.severity) == (60.0, "critical")


def test_a_rule_for_device_types_matches_by_the_inventory() -> None:
    rules = Rules((SilentSensor(device_types=("storage-array",), after_s=300),))
    rule_for = rule_lookup(SilentSensor, rules, INVENTORY)
    assert [rule_for(rack_id).after_s for rack_id in RACKS] == [30, 300, 30]


def test_without_an_inventory_only_rules_for_all_or_named_racks_match() -> None:
    rules = Rules(
        (
            WeakSignal(device_types=("gpu-server",), below=0.1),
            WeakSignal(racks=("rack-0001",), below=0.15),
        )
    )
    rule_for = rule_lookup(WeakSignal, rules)
    assert [rule_for(name).below for name in ("rack-0001", "rack-0002")] == [0.15, 0.2]
