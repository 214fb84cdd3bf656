"""Two sets of rows, held against each other: what is missing, and what is wrong."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]

ROUNDING = 1e-9
"""By how much a mean may differ: it depends on the order in which its numbers were added."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many were expected and seen, which are missing or wrong in words, how many were not compared."""

    expected: int
    seen: int
    missing: Sequence[str]
    wrong: Sequence[str]
    either: int = 0

    @property
    def holds(self) -> bool:
        """Tell whether nothing is missing or wrong."""
        return not self.missing and not self.wrong


def compare(
    wanted: Mapping[Hashable, Row],
    found: Mapping[Hashable, Row],
    fields: Sequence[str],
    what: str,
    either: int = 0,
) -> Comparison:
    """Compare rows by key and, where both sides have one, by the fields; `either` rows were not to be compared."""
    wrong = []
    for key, row in found.items():
        if key not in wanted:
            wrong.append(f"{what} {key} was not due")
        elif complaint := difference(wanted[key], row, fields):
            wrong.append(f"{what} {key}: {complaint}")
    missing = [f"{what} {key}" for key in wanted if key not in found]
    return Comparison(len(wanted), len(found), missing, wrong, either)


def difference(due: Row, row: Row, fields: Iterable[str]) -> str:
    """Say which fields of a row are not as they are due; nothing when all are."""
    return "; ".join(
        f"{name} is {row.get(name)!r}, not {due[name]!r}"
        for name in fields
        if not _same(due[name], row.get(name))
    )


def _same(due: object, found: object) -> bool:
    if isinstance(due, float) and isinstance(found, float | int):
        return math.isclose(due, found, rel_tol=ROUNDING)
    return due == found
