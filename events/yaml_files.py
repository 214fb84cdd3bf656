"""Files that people write in YAML: read into records, and the wrong line named."""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from events.cli import PersonError

Record = TypeVar("Record")


def read_yaml(path: Path, kind: type[Record], called: str, option: str) -> tuple[Record, yaml.Node | None]:
    """Return the file's record, and its nodes for `line_of`; an empty file is a record without fields.

    Raise `PersonError` with the line, for the file that a sentence calls `called` and that `option` names.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PersonError(f"{called} {path} cannot be read ({reason}): check {option}.") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} of " if mark else ""
        raise PersonError(
            f"{where}{called} {path} is not YAML: {getattr(error, 'problem', error)}."
        ) from None
    try:
        return msgspec.convert({} if content is None else content, kind), root
    except msgspec.ValidationError as error:
        key, complaint = complaint_of(error)
        named = f" ({key})" if key else ""
        line = line_of(root, key, complaint)
        raise PersonError(f"line {line} of {called} {path}{named}: {complaint}.") from None


def complaint_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Take msgspec's `complaint - at `$.path`` apart into the path without `$.` and the complaint."""
    complaint, _, path = str(error).partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix("."), complaint


def line_of(node: yaml.Node | None, path: str, complaint: str = "") -> int:
    """Return the line of the key that a path (`rules[1].count`) leads to, as far as the file goes along it."""
    line = node.start_mark.line + 1 if node else 1
    unknown = re.search(r"unknown field `(.*)`", complaint)
    steps: list[tuple[Any, Any]] = re.findall(r"(\w+)|\[(\d+)\]", path)
    for name, index in [*steps, *([(unknown.group(1), "")] if unknown else [])]:
        if isinstance(node, yaml.SequenceNode) and index:
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == name), None)
            if entry is None:
                return line
            line, node = entry[0].start_mark.line + 1, entry[1]
    return line
