"""A file that a person wrote in YAML, read into a record; what is wrong is said with its line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from events.cli import PersonError

T = TypeVar("T")


def read_yaml(path: Path, kind: type[T], what: str, hint: str) -> tuple[T, Callable[[str], str]]:
    """Return the file as a `kind`, and what says where a key stands in it: `line 3 of the plan quick.yaml (jobs)`.

    `what` the file is (`plan`), and the `hint` for one that cannot be read (`check PLAN`), are words of the sentence
    that the `PersonError` has.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PersonError(f"the {what} {path} cannot be read ({reason}): {hint}.") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1} of " if mark else ""
        raise PersonError(
            f"{where}the {what} {path} is not YAML: {getattr(error, 'problem', error)}."
        ) from None

    def place(key: str, complaint: str = "") -> str:
        return f"line {_line(root, key, complaint)} of the {what} {path}{f' ({key})' if key else ''}"

    try:
        return msgspec.convert({} if content is None else content, kind), place
    except msgspec.ValidationError as error:
        key, complaint = split_complaint(str(error))
        raise PersonError(f"{place(key, complaint)}: {complaint}.") from None


def split_complaint(error: str) -> tuple[str, str]:
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
