"""Collect what the inventory and the rules file say of each rack, in the form of both plans."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from msgspec import Struct

from events.constants import CONSECUTIVE_READINGS, DEFAULT_SEVERITY, DEFAULT_THRESHOLD_C
from events.records import InventoryRack
from events.rules import READING_HISTORY_SIZE, Overheating, Rules


class Limits(Struct, frozen=True):
    """The rule's options for one rack; None where the rule does not use an option.

    Temperatures are in °C, durations in microseconds.
    """

    threshold_c: float = DEFAULT_THRESHOLD_C
    count: int = CONSECUTIVE_READINGS
    severity: str = DEFAULT_SEVERITY
    clear_below_c: float | None = None
    within_us: int | None = None
    rising: int | None = None
    critical_after_us: int | None = None

    @property
    def has_memory(self) -> bool:
        """Whether the state depends on more than the last `count` readings."""
        options = (self.clear_below_c, self.within_us, self.rising, self.critical_after_us)
        return any(option is not None for option in options)

    @property
    def history_size(self) -> int:
        """How many of a rack's readings are kept."""
        return READING_HISTORY_SIZE if self.has_memory else self.count


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """The limits of all racks: `by_rack` has those of the racks that differ from `default`."""

    default: Limits
    by_rack: dict[str, Limits]


def fleet_limits(inventory: Iterable[InventoryRack], rules: Rules) -> FleetLimits:
    """Return the limits of the inventory's racks, and as the default those of any other rack."""
    default_rule = rules.for_rack(Overheating, "")
    default = _limits(default_rule, None, default_rule.severity_of(None))
    by_rack = {}
    for rack in inventory:
        rule = rules.for_rack(Overheating, rack.rack_id, rack.device_type)
        limits = _limits(rule, rack.threshold_c, rule.severity_of(rack))
        if limits != default:
            by_rack[rack.rack_id] = limits
    return FleetLimits(default, by_rack)


@cache
def _limits(rule: Overheating, threshold_c: float | None, severity: str) -> Limits:
    own = threshold_c if rule.threshold_c is None else rule.threshold_c
    return Limits(
        threshold_c=DEFAULT_THRESHOLD_C if own is None else own,
        count=rule.count,
        severity=severity,
        clear_below_c=rule.clear_below_c,
        within_us=_to_micros(rule.within_s),
        rising=rule.rising,
        critical_after_us=_to_micros(rule.critical_after_s),
    )


def _to_micros(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1_000_000)
