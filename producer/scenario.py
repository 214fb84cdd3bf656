"""What does a scenario file say? Options of a run and faults, checked, with the wrong line named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from events.cli import PersonError
from events.yaml_files import complaint_of, read_yaml
from producer.faults import BY_NAME, AnyFault, OfRacks, check_together
from producer.shape import AnyShape
from producer.streams import Stream
from producer.world import MAX_RACKS

Rate = Annotated[float, Meta(gt=0)] | Literal["max"]


class Scenario(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Options of a run. The values here are the defaults; an option of the command line goes first."""

    description: str = ""
    streams: Annotated[tuple[Stream, ...], Meta(min_length=1)] = ("racks",)
    racks: Annotated[int, Meta(ge=1, le=MAX_RACKS)] = 40
    sites: Annotated[int, Meta(ge=1, le=1000)] | None = None
    rate: Rate = 100.0
    duration: Annotated[float, Meta(gt=0)] | None = None
    count: Annotated[int, Meta(ge=1)] | None = None
    seed: int = 1
    time_scale: Annotated[float, Meta(gt=0)] = 1.0
    shape: AnyShape | None = None
    faults: tuple[AnyFault, ...] = ()


def load_scenario(path: Path | None, options: dict[str, Any], fault_options: list[str]) -> Scenario:
    """Read a scenario (None: the defaults), put the given options over it and add the faults of `--fault`."""
    scenario = read_yaml(path, Scenario, "the scenario", "--scenario")[0] if path else Scenario()
    try:
        given = msgspec.convert({**msgspec.to_builtins(scenario), **options}, Scenario)
    except msgspec.ValidationError as error:
        key, complaint = complaint_of(error)
        raise PersonError(f"--{key.replace('_', '-')} {options.get(key)} is wrong: {complaint}.") from None
    faults = (*given.faults, *map(parse_fault, fault_options))
    check_together(faults, given.streams)
    return msgspec.structs.replace(given, faults=faults)


def parse_fault(text: str) -> AnyFault:
    """Read `NAME[=VALUE][,option=value...]`; the value is the share or the number of racks."""
    name, *rest = re.split(r",(?![^\[]*\])", text)
    name, _, value = name.partition("=")
    if name not in BY_NAME:
        raise PersonError(f"there is no fault {name!r}: choose one of {', '.join(BY_NAME)}.")
    fields: dict[str, Any] = {"fault": name}
    if value:
        fields["racks" if issubclass(BY_NAME[name], OfRacks) else "share"] = _scalar(value)
    for option in rest:
        key, equals, value = option.partition("=")
        if not equals:
            raise PersonError(f"--fault {text}: {option!r} is not of the form option=value.")
        fields[key] = _scalar(value)
    try:
        fault: AnyFault = msgspec.convert(fields, AnyFault)
    except msgspec.ValidationError as error:
        key, complaint = complaint_of(error)
        raise PersonError(f"--fault {text}{f': {key}' if key else ''}: {complaint}.") from None
    return fault


def fault_options(name: str) -> Iterator[tuple[str, Any]]:
    """Return a fault's options and their defaults."""
    for option in msgspec.structs.fields(BY_NAME[name]):
        yield option.encode_name, option.default


def _scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
