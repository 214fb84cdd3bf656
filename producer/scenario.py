"""What does a scenario file say? Options of a run and faults, checked, with the wrong line named."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta, Struct

from events.cli import PersonError
from producer.faults import BY_NAME, AnyFault, OfRacks, check_together
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
    faults: tuple[AnyFault, ...] = ()


def load_scenario(path: Path | None, options: dict[str, Any], fault_options: list[str]) -> Scenario:
    """Read a scenario (None: the defaults), put the given options over it and add the faults of `--fault`."""
    scenario = _read(path) if path else Scenario()
    try:
        given = msgspec.convert({**msgspec.to_builtins(scenario), **options}, Scenario)
    except msgspec.ValidationError as error:
        key, complaint = _split(str(error))
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
        key, complaint = _split(str(error))
        raise PersonError(f"--fault {text}{f': {key}' if key else ''}: {complaint}.") from None
    return fault


def fault_options(name: str) -> Iterator[tuple[str, Any]]:
    """Return a fault's options and their defaults."""
    for option in msgspec.structs.fields(BY_NAME[name]):
        yield option.encode_name, option.default


def _read(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PersonError(f"the scenario {path} cannot be read ({reason}): check --scenario.") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} of " if mark else ""
        raise PersonError(
            f"{where}the scenario {path} is not YAML: {getattr(error, 'problem', error)}."
        ) from None
    try:
        return msgspec.convert({} if content is None else content, Scenario)
    except msgspec.ValidationError as error:
        key, complaint = _split(str(error))
        named = f" ({key})" if key else ""
        raise PersonError(
            f"line {_line(root, key, complaint)} of the scenario {path}{named}: {complaint}."
        ) from None


def _split(error: str) -> tuple[str, str]:
    """Take msgspec's `complaint - at `$.path`` apart into the path without `$.` and the complaint."""
    complaint, _, path = error.partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix("."), complaint


def _line(node: yaml.Node | None, path: str, complaint: str) -> int:
    """Return the line of the key that a path leads to, as far as the file goes along it."""
    line = node.start_mark.line + 1 if node else 1
    unknown = re.search(r"unknown field `(.*)`", complaint)
    for name, index in [
        *re.findall(r"(\w+)|\[(\d+)\]", path),
        *([(unknown.group(1), "")] if unknown else []),
    ]:
        if isinstance(node, yaml.SequenceNode) and index:
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == name), None)
            if entry is None:
                return line
            line, node = entry[0].start_mark.line + 1, entry[1]
    return line


def _scalar(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
