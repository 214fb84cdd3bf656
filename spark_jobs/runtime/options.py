"""Define options of jobs: a typed class beside each job, whose fields the command line reads."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin, get_type_hints

from events.rules import Rules

if TYPE_CHECKING:
    from events.records import InventoryRack

DEPLOYMENT_SETTING: Final = "deployment setting"
"""Marks an option that says where or how often something is written, and not what it is.

`run --all…` accepts such an option, and refuses all other options of jobs.
"""
Pairs = tuple[tuple[str, str], ...]
"""The type of an option that may be repeated, each time as KEY=VALUE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What a user may set about one job's computation; each job subclasses it.

    A field annotated with a help text is an option of the command line: `Annotated[str, "…"]`.
    Durations are Spark's intervals, such as `10 minutes`.
    """

    @property
    def without_effect(self) -> Mapping[str, str]:
        """The fields that do nothing because of another option, each with that option."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions(JobOptions):
    """What every job of a rule is given: the inventory, and the rules of the rules file.

    Both come from the common options `--inventory` and `--rules`.
    """

    inventory: tuple["InventoryRack", ...] = ()
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the command line: the field of an options class that has a help text."""

    field: str
    type: Any
    default: Any
    help: str
    is_deployment_setting: bool

    @property
    def flag(self) -> str:
        """The option as a user types it."""
        return flag_of(self.field)


def flag_of(field_name: str) -> str:
    """Return the option of the command line that sets a field."""
    return "--" + field_name.replace("_", "-")


def options_of(options: type[JobOptions]) -> Iterator[Option]:
    """Yield the command-line options of a job's options class, in the order of its fields."""
    hints = get_type_hints(options, {"InventoryRack": Any}, include_extras=True)
    for one in fields(options):
        hint = hints[one.name]
        if get_origin(hint) is not Annotated:
            continue
        kind, help_text, *marks = get_args(hint)
        if one.default is MISSING:
            raise TypeError(f"{options.__name__}.{one.name} needs a default")
        yield Option(one.name, kind, one.default, help_text, DEPLOYMENT_SETTING in marks)


def own_values(options: JobOptions) -> dict[str, Any]:
    """Return what a job computes by: its options' values by field, without deployment settings."""
    return {
        one.field: getattr(options, one.field)
        for one in options_of(type(options))
        if not one.is_deployment_setting
    }
