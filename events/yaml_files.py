"""Read YAML files into records, and name the line that is wrong."""

import re
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from events.cli import UserFacingError

Record = TypeVar("Record")


def read_yaml(
    path: Path, kind: type[Record], called: str, option: str
) -> tuple[Record, yaml.Node | None]:
    """Return the file's record, and its nodes for `line_of`; an empty file has no fields set.

    Raise `UserFacingError` with the wrong line; `called` is the file in sentences, `option` the
    command line's option for it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserFacingError(
            f"{called} {path} cannot be read ({reason}): check {option}."
        ) from None
    try:
        root = yaml.compose(text, Loader=_UniqueKeysLoader)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # the latter of a date that does not exist
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} of " if mark else ""
        raise UserFacingError(
            f"{where}{called} {path} is not YAML: {getattr(error, 'problem', error)}."
        ) from None
    try:
        return msgspec.convert({} if content is None else content, kind), root
    except msgspec.ValidationError as error:
        key, problem = split_error(error)
        named = f" ({key})" if key else ""
        line = line_of(root, key, problem)
        raise UserFacingError(f"line {line} of {called} {path}{named}: {problem}.") from None


class _UniqueKeysLoader(yaml.SafeLoader):
    """Refuse a key that a mapping has twice, as YAML does; PyYAML drops the first.

    It checks nodes, before merges (`<<`): a mapping may override a key of one that it merges.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # its type stub is wrong
        node = super().compose_mapping_node(anchor)
        seen: dict[tuple[str, str], yaml.Node] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                first = seen.setdefault((key.tag, key.value), key)
                if first is not key:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value!r} is given twice, first in line "
                        f"{first.start_mark.line + 1}",
                        problem_mark=key.start_mark,
                    )
        return node


def split_error(error: msgspec.ValidationError) -> tuple[str, str]:
    """Split msgspec's "problem - at `$.path`" into the path without `$.` and the problem."""
    problem, _, path = str(error).partition(" - at `")
    return path.rstrip("`").removeprefix("$").removeprefix("."), problem


def line_of(node: yaml.Node | None, path: str, problem: str = "") -> int:
    """Return the line of the key at a path (`rules[1].count`), or of its last existing part."""
    line = node.start_mark.line + 1 if node else 1
    unknown = re.search(r"unknown field `(.*)`", problem)
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
