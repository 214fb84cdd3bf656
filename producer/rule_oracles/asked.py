"""What does a rule ask of a rack? The first rule that is for it, with what the inventory says of the rack filled in."""

from collections.abc import Callable, Mapping
from math import floor
from typing import Any

from msgspec.structs import replace

from events.records import InventoryRack
from events.rules import Kind, LostSignal, Overheating, Rules


def rule_of(
    kind: type[Kind], rules: Rules, inventory: Mapping[str, InventoryRack] | None = None
) -> Callable[[str], Kind]:
    """Return what gives a rack's rule; for racks that the inventory does not name, only rules for all count."""
    racks = inventory or {}

    def of(rack_id: str) -> Kind:
        return asked_of(kind, rules, rack_id, racks.get(rack_id))

    return of


def asked_of(kind: type[Kind], rules: Rules, rack_id: str, rack: InventoryRack | None) -> Kind:
    """Return a rack's rule with severity, threshold (°C) and number of readings as they are for this rack."""
    rule = rules.for_rack(kind, rack_id, rack.device_type if rack else None)
    filled: dict[str, Any] = {"severity": rule.severity_of(rack)}
    if isinstance(rule, Overheating) and rule.threshold_c is None and rack:
        filled["threshold_c"] = rack.threshold_c
    if isinstance(rule, LostSignal) and rack:
        half = floor(rack.readings_per_second * rule.window_s / 2)
        filled["readings"] = min(rule.readings, half)
    return replace(rule, **filled)
