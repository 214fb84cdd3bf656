"""Find the rule that applies to a rack: the first that matches it, completed from the inventory.

The choice shares no code with the jobs, so that a defect in theirs shows.
"""

from collections.abc import Callable, Mapping
from math import floor
from typing import Any

from msgspec.structs import replace

from events.records import InventoryRack
from events.rules import Kind, LostSignal, Overheating, Rules


def rule_lookup(
    kind: type[Kind], rules: Rules, inventory: Mapping[str, InventoryRack] | None = None
) -> Callable[[str], Kind]:
    """Return a function from rack id to rule.

    Racks outside the inventory match only rules for all racks.
    """
    racks = inventory or {}

    def of(rack_id: str) -> Kind:
        return effective_rule(kind, rules, rack_id, racks.get(rack_id))

    return of


def effective_rule(
    kind: type[Kind], rules: Rules, rack_id: str, rack: InventoryRack | None
) -> Kind:
    """Return a rack's rule with severity, threshold (°C) and number of readings filled in."""
    rule = _first_match(kind, rules, rack_id, rack)
    of_rack = rack.severity if rack else None
    filled: dict[str, Any] = {"severity": rule.severity or of_rack or "error"}
    if isinstance(rule, Overheating) and rule.threshold_c is None and rack:
        filled["threshold_c"] = rack.threshold_c
    if isinstance(rule, LostSignal) and rack:
        half = floor(rack.readings_per_second * rule.window_s / 2)
        filled["readings"] = min(rule.readings, half)
    return replace(rule, **filled)


def _first_match(kind: type[Kind], rules: Rules, rack_id: str, rack: InventoryRack | None) -> Kind:
    for entry in rules.rules:
        if not isinstance(entry, kind):
            continue
        names_rack = rack_id in entry.racks
        names_type = rack is not None and rack.device_type in entry.device_types
        if names_rack or names_type or len(entry.racks) + len(entry.device_types) == 0:
            return entry
    return kind()
