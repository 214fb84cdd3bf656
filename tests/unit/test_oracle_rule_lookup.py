"""The rule that applies to a rack: the first that matches, completed from the inventory."""

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from events.records import Severity
from events.rules import AnyRule, Overheating, Rules, SilentSensor, WeakSignal
from producer.expected.oracles.rule_lookup import rule_lookup
from spark_jobs.rules.framework.rack_metadata import RackMetadata, effective_rule
from spark_jobs.rules.overheating.limits import fleet_limits
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


SEVERITIES = st.sampled_from([None, *get_args(Severity)])


@st.composite
def rules_files(draw: st.DrawFn) -> Rules:
    """Return entries for all racks, or for some by name or device type; each has its own option."""
    names = st.lists(st.sampled_from(sorted(INVENTORY)), unique=True).map(tuple)
    device_types = st.lists(st.sampled_from(["gpu-server", "storage-array"]), max_size=1).map(tuple)
    entries: list[AnyRule] = []
    for at in range(draw(st.integers(0, 5))):
        options = {
            "racks": draw(names), "device_types": draw(device_types), "severity": draw(SEVERITIES)
        }  # fmt: skip
        if draw(st.booleans()):
            entries.append(Overheating(threshold_c=draw(st.none() | st.just(40.0 + at)), **options))
        else:
            entries.append(SilentSensor(after_s=10 + at, **options))
    return Rules(tuple(entries))


@given(rules_files())
def test_the_oracles_and_the_jobs_choose_the_same_rule_of_a_rack(rules: Rules) -> None:
    silent = rule_lookup(SilentSensor, rules, INVENTORY)
    hot = rule_lookup(Overheating, rules, INVENTORY)
    limits = fleet_limits(INVENTORY.values(), rules)
    for rack_id in RACKS:
        known = INVENTORY.get(rack_id)
        due = effective_rule(rules, SilentSensor, RackMetadata(rack_id, known))
        assert silent(rack_id).after_s == due.after_s
        assert silent(rack_id).severity == due.severity_of(known)
        of_job = limits.by_rack.get(rack_id, limits.default)
        threshold_c = hot(rack_id).threshold_c
        assert of_job.threshold_c == (100.0 if threshold_c is None else threshold_c)
        assert of_job.severity == hot(rack_id).severity
