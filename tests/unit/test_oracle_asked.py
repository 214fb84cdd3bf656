"""What a rule asks of a rack: the file's first that is for it, the rest filled in from the inventory."""

from events.rules import Overheating, Rules, SilentSensor, WeakSignal
from producer.rule_oracles import rule_of
from tests.unit.racks import rack

INVENTORY = {
    "rack-0001": rack("rack-0001", severity="warning"),
    "rack-0002": rack("rack-0002", device_type="storage-array", threshold_c=75.0),
}


def test_threshold_and_severity_are_the_racks_unless_the_rule_says() -> None:
    asked = rule_of(Overheating, Rules(), INVENTORY)
    assert (asked("rack-0001").threshold_c, asked("rack-0001").severity) == (90.0, "warning")
    assert (asked("rack-0002").threshold_c, asked("rack-0002").severity) == (75.0, "error")
    assert (asked("rack-0003").threshold_c, asked("rack-0003").severity) == (None, "error")
    asked = rule_of(Overheating, Rules((Overheating(threshold_c=60.0, severity="critical"),)), INVENTORY)
    assert (asked("rack-0001").threshold_c, asked("rack-0001").severity) == (60.0, "critical")


def test_a_racks_device_type_is_the_inventorys() -> None:
    rules = Rules((SilentSensor(device_types=("storage-array",), after_s=300),))
    asked = rule_of(SilentSensor, rules, INVENTORY)
    assert [asked(name).after_s for name in ("rack-0001", "rack-0002", "rack-0003")] == [30, 300, 30]


def test_without_an_inventory_only_rules_for_all_or_by_name_count() -> None:
    rules = Rules(
        (WeakSignal(device_types=("gpu-server",), below=0.1), WeakSignal(racks=("rack-0001",), below=0.15))
    )
    asked = rule_of(WeakSignal, rules)
    assert [asked(name).below for name in ("rack-0001", "rack-0002")] == [0.15, 0.2]
