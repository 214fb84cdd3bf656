"""The rule that applies to a rack: the first that matches it, completed from the inventory."""

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
    rule = rules.for_rack(kind, rack_id, rack.device_type if rack else None)
    filled: dict[str, Any] = {"severity": rule.severity_of(rack)}
    if isinstance(rule, Overheating) and rule.threshold_c is None and rack:
        filled["threshold_c"] = rack.threshold_c
    if isinstance(rule, LostSignal) and rack:
        half = floor(rack.readings_per_second * rule.window_s / 2)
        filled["readings"] = min(rule.readings, half)
    return replace(rule, **filled)
