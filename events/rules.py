"""Read the rules file: what triggers an alert, for which racks; check it against the inventory.

For each kind of rule, the first one in the file that applies to a rack counts; if none applies,
the kind's defaults do.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, TypeVar, get_args

from msgspec import Meta, Struct

from events.catalog import (
    LOST_SIGNAL,
    RACK_OVERHEATING,
    SILENT_SENSOR,
    SITE_OUTAGE,
    WEAK_SIGNAL,
)
from events.cli import UserFacingError
from events.constants import (
    CONSECUTIVE_READINGS,
    DEFAULT_SEVERITY,
    DEFAULT_THRESHOLD_C,
    SILENT_AFTER,
)
from events.records import InventoryRack, Severity
from events.yaml_files import line_of, read_yaml

Seconds = Annotated[float, Meta(ge=0.001, le=30 * 86_400)]
Celsius = Annotated[float, Meta(ge=-1e6, le=1e6)]
"""A temperature. The bounds refuse NaN and infinity, with which a rule never warns or clears."""
Names = Annotated[tuple[str, ...], Meta(min_length=1)]
"""Some names. An empty list is refused, as it would not mean none: a rule without names is for all.
"""
Share = Annotated[float, Meta(ge=0, le=1)]
MAX_CONSECUTIVE = 8
READING_HISTORY_SIZE = 32
"""How many of a rack's latest readings a rule keeps, to put late ones in order by `sequence`."""


class AnyRule(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="rule"):
    """A rule for the named racks and device types; for all racks where neither is named."""

    racks: Names = ()
    device_types: Names = ()
    severity: Severity | None = None
    """Severity of its `WARNING`; by default the rack's in the inventory, else `error`."""

    @property
    def name(self) -> str:
        """The rule's name in alerts."""
        return str(self.__struct_config__.tag)

    def severity_of(self, rack: InventoryRack | None) -> str:
        """Return the severity of a `WARNING` for a rack, None for one outside the inventory."""
        return self.severity or (rack and rack.severity) or DEFAULT_SEVERITY

    def is_for(self, rack_id: str, device_type: str | None) -> bool:
        """Tell whether the rule applies to a rack."""
        return self.is_for_all or rack_id in self.racks or device_type in self.device_types

    @property
    def is_for_all(self) -> bool:
        """Tell whether the rule applies to every rack."""
        return not self.racks and not self.device_types


class Overheating(AnyRule, frozen=True, tag=RACK_OVERHEATING):
    """`count` consecutive readings at or above the threshold; `docs/rules.md` has each option."""

    threshold_c: Celsius | None = None
    """By default the rack's threshold in the inventory."""
    count: Annotated[int, Meta(ge=1, le=MAX_CONSECUTIVE)] = CONSECUTIVE_READINGS
    within_s: Seconds | None = None
    clear_below_c: Celsius | None = None
    """By default the threshold."""
    rising: Annotated[int, Meta(ge=1, le=MAX_CONSECUTIVE)] | None = None
    """The alert becomes critical when this many readings after the first each rise further."""
    critical_after_s: Seconds | None = None

    @property
    def option_with_memory(self) -> str | None:
        """The first option that makes the state depend on more than the last `count` readings."""
        names = ("within_s", "clear_below_c", "rising", "critical_after_s")
        return next((name for name in names if getattr(self, name) is not None), None)


class LostSignal(AnyRule, frozen=True, tag=LOST_SIGNAL):
    """A window of `window_s` with some readings, but fewer than `readings`."""

    readings: Annotated[int, Meta(ge=2, le=10_000)] = 5
    window_s: Seconds = 5.0


class SilentSensor(AnyRule, frozen=True, tag=SILENT_SENSOR):
    """No reading for more than `after_s`."""

    after_s: Seconds = SILENT_AFTER.total_seconds()


class WeakSignal(AnyRule, frozen=True, tag=WEAK_SIGNAL):
    """A signal strength below `below`, until it is `clear_at` or more."""

    below: Share = 0.2
    clear_at: Share = 0.25


class SiteOutage(AnyRule, frozen=True, tag=SITE_OUTAGE):
    """More than `share` of a site's racks in `WARNING`, which they entered within `within_s`."""

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    within_s: Seconds = 60.0


Kind = TypeVar("Kind", bound=AnyRule)
AnyKind = Overheating | LostSignal | SilentSensor | WeakSignal | SiteOutage
RULE_TYPES: dict[str, type[AnyRule]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(AnyKind)
}
"""The class of each rule, by the rule's name."""


class RulesFile(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The content of a rules file."""

    description: str = ""
    rules: tuple[AnyKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a file in its order; empty without a file."""

    rules: tuple[AnyRule, ...] = ()
    places: tuple[dict[str, str], ...] = field(default=(), compare=False)
    """Where the file has each option of each rule, in words."""

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """Return the rules of a kind in the file's order."""
        return tuple(rule for rule in self.rules if isinstance(rule, kind))

    def place_of(self, rule: AnyRule, option: str) -> str:
        """Return where the file has an option of one of its rules, in words."""
        at = self.rules.index(rule)
        return self.places[at][option] if self.places else f"rules[{at}].{option}"

    def for_rack(self, kind: type[Kind], rack_id: str, device_type: str | None = None) -> Kind:
        """Return a rack's rule of a kind: the first that applies to it, or the defaults."""
        return next((rule for rule in self.of(kind) if rule.is_for(rack_id, device_type)), kind())


def read_rules(path: Path, inventory: Sequence[InventoryRack]) -> Rules:
    """Read the rules; raise `UserFacingError` with the line that is wrong or never applies."""
    content, root = read_yaml(path, RulesFile, "the rules", "--rules")

    def place(at: int, key: str) -> str:
        line = line_of(root, f"rules[{at}].{key}")
        return f"line {line} of the rules {path} (rules[{at}].{key})"

    for at, key, problem in _problems(content.rules, inventory):
        raise UserFacingError(f"{place(at, key)}: {problem}.")
    places = tuple(
        {key: place(at, key) for key in rule.__struct_fields__}
        for at, rule in enumerate(content.rules)
    )
    return Rules(content.rules, places)


def _problems(
    rules: Sequence[AnyRule], inventory: Sequence[InventoryRack]
) -> Iterator[tuple[int, str, str]]:
    racks = {rack.rack_id for rack in inventory}
    device_types = {rack.device_type for rack in inventory}
    for at, rule in enumerate(rules):
        earlier = [one for one in rules[:at] if type(one) is type(rule)]
        if any(one.is_for_all for one in earlier):
            yield (
                at,
                "rule",
                f"an earlier {rule.name} applies to all racks, so this one never does",
            )
        for rack_id in rule.racks:
            if rack_id not in racks:
                yield at, "racks", f"the inventory has no rack {rack_id!r}"
        for device_type in rule.device_types:
            if device_type not in device_types:
                yield at, "device_types", f"the inventory has no device type {device_type!r}"
        own = [
            rack
            for rack in inventory
            if rule.is_for(rack.rack_id, rack.device_type)
            and not any(one.is_for(rack.rack_id, rack.device_type) for one in earlier)
        ]
        if not own and not rule.is_for_all:
            yield (
                at,
                "rule",
                f"each of its racks has an earlier {rule.name}, so this one never applies",
            )
        yield from ((at, key, problem) for key, problem in _contradictions(rule, own))


def _contradictions(rule: AnyRule, own: Sequence[InventoryRack]) -> Iterator[tuple[str, str]]:
    """Yield the options that contradict others or the racks to which the rule applies."""
    match rule:
        case WeakSignal(below=below, clear_at=clear_at) if clear_at < below:
            yield "clear_at", f"{clear_at:g} is less than below {below:g}"
        case SiteOutage() if not rule.is_for_all:
            yield "rule", "a site-outage concerns sites: it cannot name racks or device types"
        case Overheating(clear_below_c=clear) if clear is not None:
            for threshold, whose in _thresholds(rule, own):
                if clear > threshold:
                    yield "clear_below_c", f"{clear:g} is above {whose}, {threshold:g}"


def _thresholds(rule: Overheating, own: Sequence[InventoryRack]) -> Iterator[tuple[float, str]]:
    """Yield each threshold that the rule has for a rack, and whose it is, in words."""
    if rule.threshold_c is not None:
        yield rule.threshold_c, "a threshold"
        return
    yield from ((rack.threshold_c, "a threshold") for rack in own)
    if rule.is_for_all:
        yield DEFAULT_THRESHOLD_C, "the threshold of racks outside the inventory"
