"""A rules file is checked, a wrong line is named, and a rack has the first rule for it."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.constants import DEFAULT_THRESHOLD_C
from events.records import InventoryRack
from events.rules import (
    RULE_TYPES,
    LostSignal,
    Overheating,
    Rules,
    SilentSensor,
    SiteOutage,
    WeakSignal,
    read_rules,
)
from tests.builders import rack

INVENTORY = [
    rack("rack-0001", threshold_c=90.0),
    rack("rack-0002", threshold_c=80.0, device_type="storage-array", severity="warning"),
]


def rules_of(tmp_path: Path, text: str, inventory: Sequence[InventoryRack] = INVENTORY) -> Rules:
    path = tmp_path / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path, inventory)


def test_the_example_in_the_documentation_is_valid(tmp_path: Path) -> None:
    document = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    example = (
        document.partition("```yaml\n")[2].partition("```")[0].replace("rack-0007", "rack-0001")
    )
    assert rules_of(tmp_path, example).rules == (
        Overheating(
            device_types=("gpu-server",),
            clear_below_c=85.0,
            within_s=30.0,
            rising=3,
            critical_after_s=600.0,
        ),
        SilentSensor(racks=("rack-0001",), after_s=300.0),
        WeakSignal(below=0.3, clear_at=0.4, severity="warning"),
    )


@pytest.mark.parametrize("text", ["", "rules: []\n", "description: none yet\n"])
def test_a_file_without_rules_has_none(tmp_path: Path, text: str) -> None:
    assert rules_of(tmp_path, text) == Rules()


def documented_defaults() -> dict[str, dict[str, str]]:
    """Return the defaults in the table of options of docs/rules.md, by rule (or `all`)."""
    document = (Path(__file__).parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    table = document.split("| rule | option | default | meaning and bounds |\n")[1].split("\n\n")[0]
    found: dict[str, dict[str, str]] = {}
    rule = ""
    for line in table.splitlines()[1:]:
        name, names, default, _ = (cell.strip(" `") for cell in line[1:-1].split("|"))
        rule = name or rule  # an empty cell repeats the one above it
        options = re.findall(r"[a-z_]+", names)
        defaults = default.split(", ") if default[0].isdigit() else [default] * len(options)
        found.setdefault(rule, {}).update(zip(options, defaults, strict=True))
    return found


def test_the_defaults_are_those_of_the_documentation() -> None:
    documented = documented_defaults()
    of_all = documented.pop("all")
    assert sorted(documented) == sorted(RULE_TYPES)
    for name, kind in RULE_TYPES.items():
        rule = Rules().for_rack(kind, "rack-0001")
        assert set(rule.__struct_fields__) == {*of_all, *documented[name]}
        for option, text in {**of_all, **documented[name]}.items():
            default = getattr(rule, option)
            if text[0].isdigit():
                assert default == float(text), option
            else:  # a default in words, such as the rack's threshold
                assert default in (None, ()), option
    assert documented["rack-overheating"]["threshold_c"].endswith(f" {DEFAULT_THRESHOLD_C:g}")


def test_a_rack_has_the_first_rule_of_each_kind_that_applies_to_it() -> None:
    by_type = SilentSensor(device_types=("gpu-server",), after_s=1)
    by_name = SilentSensor(racks=("rack-0002", "rack-0003"), after_s=2)
    rest = SilentSensor(after_s=3)
    rules = Rules((WeakSignal(), by_type, by_name, rest))
    assert rules.for_rack(SilentSensor, "rack-0001", "gpu-server") is by_type
    assert rules.for_rack(SilentSensor, "rack-0002", "gpu-server") is by_type
    assert rules.for_rack(SilentSensor, "rack-0002", "storage-array") is by_name
    assert rules.for_rack(SilentSensor, "rack-0009", "storage-array") is rest
    assert rules.for_rack(SilentSensor, "rack-0009") is rest
    assert Rules((by_name,)).for_rack(SilentSensor, "rack-0001", "gpu-server") == SilentSensor()


def test_a_rule_with_racks_and_types_applies_to_either() -> None:
    rule = WeakSignal(racks=("rack-0001",), device_types=("storage-array",))
    assert rule.is_for("rack-0001", "gpu-server")
    assert rule.is_for("rack-0002", "storage-array")
    assert not rule.is_for("rack-0002", "gpu-server")
    assert not rule.is_for("rack-0002", None)


def test_the_rules_of_a_kind_keep_their_order_and_have_the_names_of_alerts() -> None:
    kinds = (Overheating(), SilentSensor(), LostSignal(), SiteOutage(), WeakSignal())
    names = ["rack-overheating", "silent-sensor", "lost-signal", "site-outage", "weak-signal"]
    assert [rule.name for rule in kinds] == names
    first, second = SilentSensor(racks=("rack-0001",)), SilentSensor()
    assert Rules((first, WeakSignal(), second)).of(SilentSensor) == (first, second)


def test_a_warnings_severity_is_the_rules_else_the_racks_else_error() -> None:
    plain, mild = INVENTORY
    assert WeakSignal(severity="critical").severity_of(mild) == "critical"
    assert WeakSignal().severity_of(mild) == "warning"
    assert WeakSignal().severity_of(plain) == "error"
    assert WeakSignal().severity_of(None) == "error"


OVERHEATING, WITH_COUNT = (
    "rules:\n- rule: rack-overheating\n",
    "rules:\n  - rule: rack-overheating\n    count: 3\n",
)


WRONG = [
    (
        "rules:\n- rule: nonsense\n",
        r"line 2 of the rules .*\(rules\[0\]\.rule\): Invalid value 'nonsense'",
    ),
    ("rules:\n- count: 3\n", r"line 2 of .*missing required field `rule`"),
    (
        f"{WITH_COUNT}    # hot\n    cuont: 3\n",
        r"line 5 of .*\(rules\[0\]\): .* unknown field `cuont`",
    ),
    (f"{WITH_COUNT}rulez: []\n", r"line 4 of .*unknown field `rulez`"),
    (f"{OVERHEATING}  after_s: 3\n", r"line 3 of .*unknown field `after_s`"),
    (f"{OVERHEATING}  count: 0\n", r"line 3 of .*\(rules\[0\]\.count\): Expected `int` >= 1"),
    (f"{OVERHEATING}  count: 9\n", r"line 3 of .*Expected `int` <= 8"),
    (f"{OVERHEATING}  rising: 9\n", r"line 3 of .*\(rules\[0\]\.rising\): Expected `int` <= 8"),
    (
        f"{OVERHEATING}  within_s: 0\n",
        r"line 3 of .*\(rules\[0\]\.within_s\): Expected `float` >= 0.001",
    ),
    (
        f"{OVERHEATING}  count: 3\n  threshold_c: .nan\n",
        r"line 4 of .*\(rules\[0\]\.threshold_c\): Expected `float` >= -1000000\.0\.",
    ),
    (f"{OVERHEATING}  threshold_c: .inf\n", r"line 3 of .*Expected `float` <= 1000000\.0\."),
    (f"{OVERHEATING}  threshold_c: -.inf\n", r"line 3 of .*Expected `float` >= -1000000\.0\."),
    (
        f"{OVERHEATING}  clear_below_c: .nan\n",
        r"line 3 of .*\(rules\[0\]\.clear_below_c\): Expected `float` >= -1000000\.0\.",
    ),
    (f"{OVERHEATING}  clear_below_c: -.inf\n", r"line 3 of .*Expected `float` >= -1000000\.0\."),
    (
        f"{OVERHEATING}  severity: bad\n",
        r"line 3 of .*\(rules\[0\]\.severity\): Invalid enum value 'bad'",
    ),
    ("rules:\n- rule: lost-signal\n  readings: 1\n", r"line 3 of .*Expected `int` >= 2"),
    ("rules:\n- rule: weak-signal\n  below: 1.1\n", r"line 3 of .*Expected `float` <= 1"),
    ("rules:\n- rule: site-outage\n  share: 1\n", r"line 3 of .*Expected `float` < 1"),
    (
        f"{OVERHEATING}  count: 3\n  racks:\n  - rack-0001\n  - rack-0009\n",
        r"line 4 of the rules .*\(rules\[0\]\.racks\): the inventory has no rack 'rack-0009'\.",
    ),
    (
        "rules:\n- rule: weak-signal\n- rule: silent-sensor\n  device_types: [toaster]\n",
        r"line 4 of .*\(rules\[1\]\.device_types\): the inventory has no device type 'toaster'",
    ),
    (
        "rules:\n- rule: weak-signal\n- rule: silent-sensor\n- after_s: 3\n  rule: silent-sensor\n",
        r"line 5 of .*\(rules\[2\]\.rule\): an earlier silent-sensor applies to all racks",
    ),
    (
        "rules:\n- rule: weak-signal\n  racks: [rack-0001]\n"
        "- rule: weak-signal\n  device_types: [storage-array]\n"
        "- rule: weak-signal\n  racks: [rack-0002, rack-0001]\n",
        r"line 6 of .*\(rules\[2\]\.rule\): each of its racks has an earlier weak-signal, so this",
    ),
    (
        "rules:\n- rule: weak-signal\n  below: 0.4\n  clear_at: 0.3\n",
        r"line 4 of .*\(rules\[0\]\.clear_at\): 0\.3 is less than below 0\.4\.",
    ),
    (
        "rules:\n- rule: weak-signal\n  below: 0.4\n",
        r"line 2 of .*\(rules\[0\]\.clear_at\): 0\.25 is less than below 0\.4\.",
    ),
    (
        "rules:\n- rule: site-outage\n  racks: [rack-0001]\n",
        r"line 2 of .*\(rules\[0\]\.rule\): a site-outage concerns sites",
    ),
    (
        f"{OVERHEATING}  threshold_c: 80\n  clear_below_c: 80.5\n",
        r"line 4 of .*\(rules\[0\]\.clear_below_c\): 80\.5 is above a threshold, 80\.",
    ),
    (
        f"{OVERHEATING}  clear_below_c: 85\n",
        r"line 3 of .*\(rules\[0\]\.clear_below_c\): 85 is above a threshold, 80\.",
    ),
    (
        f"{OVERHEATING}  count: 5\n  racks: []\n",
        r"line 4 of .*\(rules\[0\]\.racks\): Expected `array` of length >= 1",
    ),
    ("description: 2026-13-45\n", r"^the rules .* is not YAML: month must be in 1\.\.12\.$"),
    ("rules: [\n", r"line 2 of the rules .* is not YAML"),
    ("- rule\n", r"line 1 of the rules .*Expected `object`, got `array`"),
]
RIGHT = [
    f"{OVERHEATING}  clear_below_c: 80\n",
    f"{OVERHEATING}  clear_below_c: 85\n  racks: [rack-0001]\n",
    f"{OVERHEATING}  racks: [rack-0002]\n"
    "- {rule: rack-overheating, racks: [rack-0001, rack-0002], clear_below_c: 85}\n",
    f"{OVERHEATING}  racks: [rack-0002]\n- {{rule: rack-overheating, clear_below_c: 85}}\n",
    f"{OVERHEATING}  threshold_c: 120\n  clear_below_c: 110\n",
    "rules:\n- rule: weak-signal\n  below: 0.3\n  clear_at: 0.3\n",
    "rules:\n- rule: weak-signal\n  racks: [rack-0001]\n- rule: weak-signal\n",
    "rules:\n- rule: weak-signal\n- rule: silent-sensor\n",
    "rules:\n- rule: weak-signal\n  racks: [rack-0001]\n"
    "- rule: weak-signal\n  racks: [rack-0001, rack-0002]\n",
    "rules:\n- rule: weak-signal\n  device_types: [gpu-server, storage-array]\n"
    "- rule: weak-signal\n",
]


def problem_of(tmp_path: Path, text: str) -> str:
    """Return the error for a rules file, empty if it is accepted."""
    try:
        assert rules_of(tmp_path, text).rules
    except UserFacingError as error:
        return str(error)
    return ""


def test_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    found = {text: problem_of(tmp_path, text) for text, _ in WRONG}
    assert {
        text: found[text] for text, problem in WRONG if not re.search(problem, found[text])
    } == {}


def test_what_only_looks_like_a_contradiction_is_accepted(tmp_path: Path) -> None:
    assert {text: problem for text in RIGHT if (problem := problem_of(tmp_path, text))} == {}


def test_a_rule_for_all_also_clears_racks_outside_the_inventory(tmp_path: Path) -> None:
    hot = [rack("rack-0001", threshold_c=120.0)]
    text = f"{OVERHEATING}  clear_below_c: 110\n"
    with pytest.raises(
        UserFacingError,
        match=r"line 3 of .*: 110 is above the threshold of racks outside the inventory, 100\.$",
    ):
        rules_of(tmp_path, text, hot)
    assert rules_of(tmp_path, f"{text}  racks: [rack-0001]\n", hot).rules


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"rules .*none\.yaml cannot be read .*: check --rules\."
    ):
        read_rules(tmp_path / "none.yaml", INVENTORY)
