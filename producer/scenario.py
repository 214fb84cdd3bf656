"""Read scenario files: options and faults of a run, checked, with the wrong line in the error."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from events.cli import UserFacingError
from events.records import InventoryRack
from events.yaml_files import read_yaml, split_error
from producer.faults import FAULT_TYPES, AnyFault, PositiveSeconds, RackFault, check_together
from producer.pacing.shape import AnyShape
from producer.streams.stream_set import Stream, readings_per_second
from producer.world.racks import MAX_RACKS, World, make_world

HISTORY_S = 60.0
"""How long it takes to send a history, however many hours it has."""

Rate = Annotated[float, Meta(gt=0, le=1e9)] | Literal["max"]
"""Events per second. The bound refuses infinity; the rate of a history may be in the millions."""


class Scenario(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Options of a run, here with their defaults; command-line options override a file's."""

    description: str = ""
    streams: Annotated[tuple[Stream, ...], Meta(min_length=1)] = ("racks",)
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] = 40
    sites: Annotated[int, Meta(ge=1, le=1000)] | None = None
    rate: Rate = 100.0
    duration: PositiveSeconds | None = None
    count: Annotated[int, Meta(ge=1)] | None = None
    seed: int = 1
    time_scale: Annotated[float, Meta(gt=0, le=1e9)] = 1.0
    shape: AnyShape | None = None
    faults: tuple[AnyFault, ...] = ()

    @property
    def paced_rate(self) -> float | None:
        """The rate in events per second; None: as fast as possible."""
        return None if self.rate == "max" else self.rate

    @property
    def readings_per_second(self) -> float:
        """A rack's readings per second of event time."""
        return readings_per_second(self.streams, self.paced_rate, self.racks, self.time_scale)

    @property
    def readings_of_a_rack(self) -> int:
        """The readings that each rack sends in the run's duration; of some racks it is one less."""
        return math.ceil(self.readings_per_second * self.time_scale * (self.duration or 0.0))

    def history(self, hours: float) -> "Scenario":
        """Return the run that sends the last hours of event time in a minute.

        It has as many events in an hour of event time as this scenario. Raises `UserFacingError`
        if this scenario has no rate.
        """
        if self.paced_rate is None:
            raise UserFacingError("--history-hours needs a rate: give --rate a number.")
        speed_up = hours * 3600 / HISTORY_S / self.time_scale
        return msgspec.structs.replace(
            self,
            rate=self.paced_rate * speed_up,
            time_scale=self.time_scale * speed_up,
            duration=HISTORY_S,
            count=None,
            shape=None,
        )

    def make_world(self) -> World:
        """Make the run's world."""
        return make_world(self.seed, self.racks, self.sites)

    def inventory(self, world: World) -> Iterator[InventoryRack]:
        """Return the racks of this world, each with the rate of readings that the run sends."""
        return world.inventory(self.readings_per_second)


def load_scenario(path: Path | None, options: dict[str, Any], fault_options: list[str]) -> Scenario:
    """Read a scenario (None: the defaults), override it by the options, and add the faults.

    Raise `UserFacingError` if any of them is wrong.
    """
    scenario = read_yaml(path, Scenario, "the scenario", "--scenario")[0] if path else Scenario()
    try:
        given = msgspec.convert({**msgspec.to_builtins(scenario), **options}, Scenario)
    except msgspec.ValidationError as error:
        key, complaint = split_error(error)
        raise UserFacingError(
            f"--{key.replace('_', '-')} {options.get(key)}: {complaint}."
        ) from None
    faults = (*given.faults, *map(parse_fault, fault_options))
    check_together(faults, given.streams)
    return msgspec.structs.replace(given, faults=faults)


def parse_fault(text: str) -> AnyFault:
    """Read `NAME[=VALUE][,option=value...]`; the value is the share or the number of racks."""
    name, *rest = re.split(r",(?![^\[]*\])", text)
    name, _, value = name.partition("=")
    if name not in FAULT_TYPES:
        raise UserFacingError(
            f"there is no fault {name!r}: choose one of {', '.join(FAULT_TYPES)}."
        )
    fields: dict[str, Any] = {"fault": name}
    if value:
        fields["racks" if issubclass(FAULT_TYPES[name], RackFault) else "share"] = _scalar(value)
    for option in rest:
        key, equals, value = option.partition("=")
        if not equals:
            raise UserFacingError(f"--fault {text}: {option!r} is not of the form option=value.")
        fields[key] = _scalar(value)
    try:
        fault: AnyFault = msgspec.convert(fields, AnyFault)
    except msgspec.ValidationError as error:
        key, complaint = split_error(error)
        raise UserFacingError(f"--fault {text}{f': {key}' if key else ''}: {complaint}.") from None
    return fault


def fault_options(name: str) -> Iterator[tuple[str, Any]]:
    """Yield a fault's options and their defaults."""
    for option in msgspec.structs.fields(FAULT_TYPES[name]):
        yield option.encode_name, option.default


def _scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
