"""Rules as data: what makes an alert, for which racks; one YAML file, checked against the inventory.

A rack has of each kind the first rule in the file that is for it, and the rule's defaults where none is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from events.cli import PersonError
from events.records import InventoryRack, Severity
from events.yaml_files import line_of, read_yaml

Seconds = Annotated[float, Meta(ge=0.001, le=30 * 86_400)]
Share = Annotated[float, Meta(ge=0, le=1)]
MOST_IN_A_ROW = 8
KEPT_READINGS = 32
"""A rule that orders a rack's readings by `sequence` sees through arrivals as late as the last so many readings."""


class AnyRule(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True, tag_field="rule"):
    """A rule for the racks that are named or are of a named device type; for all where neither is."""

    racks: tuple[str, ...] = ()
    device_types: tuple[str, ...] = ()
    severity: Severity | None = None
    """Of its `WARNING`; by default the rack's in the inventory, and `error` without one."""

    @property
    def name(self) -> str:
        """The rule's name in alerts."""
        return str(self.__struct_config__.tag)

    def severity_of(self, rack: InventoryRack | None) -> str:
        """Return the severity of a `WARNING` for a rack of the inventory, or for one that it does not name."""
        return self.severity or (rack and rack.severity) or "error"

    def is_for(self, rack_id: str, device_type: str | None) -> bool:
        """Tell whether a rack is among those that the rule is for."""
        return self.is_for_all or rack_id in self.racks or device_type in self.device_types

    @property
    def is_for_all(self) -> bool:
        """Tell whether the rule is for every rack."""
        return not self.racks and not self.device_types


class Overheating(AnyRule, frozen=True, tag="rack-overheating"):
    """`count` readings in a row at or above the threshold; see `docs/rules.md` for each option."""

    threshold_c: float | None = None
    """By default the rack's in the inventory."""
    count: Annotated[int, Meta(ge=1, le=MOST_IN_A_ROW)] = 3
    within_s: Seconds | None = None
    clear_below_c: float | None = None
    """By default the threshold."""
    rising: Annotated[int, Meta(ge=1, le=MOST_IN_A_ROW)] | None = None
    """It becomes critical when so many readings after the one that opened it are each higher than the last."""
    critical_after_s: Seconds | None = None


class LostSignal(AnyRule, frozen=True, tag="lost-signal"):
    """Some, but fewer than `readings` readings in a window of `window_s`."""

    readings: Annotated[int, Meta(ge=2, le=10_000)] = 5
    window_s: Seconds = 5.0


class SilentSensor(AnyRule, frozen=True, tag="silent-sensor"):
    """No reading for more than `after_s`."""

    after_s: Seconds = 30.0


class WeakSignal(AnyRule, frozen=True, tag="weak-signal"):
    """A signal strength below `below`, until it is `clear_at` or more."""

    below: Share = 0.2
    clear_at: Share = 0.25


class SiteOutage(AnyRule, frozen=True, tag="site-outage"):
    """More than `share` of a site's racks in `WARNING`, all of them since one span of `within_s`."""

    share: Annotated[float, Meta(ge=0, lt=1)] = 0.5
    within_s: Seconds = 60.0


Kind = TypeVar("Kind", bound=AnyRule)


class RulesFile(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """What a file of rules holds."""

    description: str = ""
    rules: tuple[Overheating | LostSignal | SilentSensor | WeakSignal | SiteOutage, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a file in its order; none without a file."""

    rules: tuple[AnyRule, ...] = ()

    def of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        """Return the rules of a kind in the file's order."""
        return tuple(rule for rule in self.rules if isinstance(rule, kind))

    def for_rack(self, kind: type[Kind], rack_id: str, device_type: str | None = None) -> Kind:
        """Return a rack's rule of a kind: the first in the file that is for it, or the defaults."""
        return next((rule for rule in self.of(kind) if rule.is_for(rack_id, device_type)), kind())


def read_rules(path: Path, inventory: Sequence[InventoryRack]) -> Rules:
    """Read the rules; raise `PersonError` with the line of what is wrong, unknown or could never apply."""
    content, root = read_yaml(path, RulesFile, "the rules", "--rules")
    for at, key, complaint in _complaints(content.rules, inventory):
        line = line_of(root, f"rules[{at}].{key}")
        raise PersonError(f"line {line} of the rules {path} (rules[{at}].{key}): {complaint}.")
    return Rules(content.rules)


def _complaints(
    rules: Sequence[AnyRule], inventory: Sequence[InventoryRack]
) -> Iterator[tuple[int, str, str]]:
    racks = {rack.rack_id for rack in inventory}
    device_types = {rack.device_type for rack in inventory}
    for at, rule in enumerate(rules):
        earlier = [one for one in rules[:at] if type(one) is type(rule)]
        if any(one.is_for_all for one in earlier):
            yield at, "rule", f"an earlier {rule.name} is for all racks, so that this one never applies"
        for rack_id in rule.racks:
            if rack_id not in racks:
                yield at, "racks", f"the inventory has no rack {rack_id!r}"
        for device_type in rule.device_types:
            if device_type not in device_types:
                yield at, "device_types", f"the inventory has no device type {device_type!r}"
        own = [(rack.rack_id, rack.device_type) for rack in inventory]
        own = [rack for rack in own if rule.is_for(*rack) and not any(one.is_for(*rack) for one in earlier)]
        if not own and not rule.is_for_all:
            yield at, "rule", f"each of its racks has an earlier {rule.name}, so that this one never applies"
        yield from ((at, key, complaint) for key, complaint in _contradictions(rule, inventory))


def _contradictions(rule: AnyRule, inventory: Sequence[InventoryRack]) -> Iterator[tuple[str, str]]:
    match rule:
        case WeakSignal(below=below, clear_at=clear_at) if clear_at < below:
            yield "clear_at", f"{clear_at:g} is less than below {below:g}"
        case SiteOutage() if not rule.is_for_all:
            yield "rule", "a site-outage is of sites: it can name neither racks nor device types"
        case Overheating(clear_below_c=clear) if clear is not None:
            for threshold in _thresholds(rule, inventory):
                if clear > threshold:
                    yield "clear_below_c", f"{clear:g} is above a threshold, {threshold:g}"


def _thresholds(rule: Overheating, inventory: Sequence[InventoryRack]) -> list[float]:
    if rule.threshold_c is not None:
        return [rule.threshold_c]
    return [rack.threshold_c for rack in inventory if rule.is_for(rack.rack_id, rack.device_type)]
