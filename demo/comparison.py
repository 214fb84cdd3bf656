"""Compare expected rows with actual rows: which are missing, and which are wrong."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

Row = Mapping[str, Any]

RELATIVE_TOLERANCE = 1e-9
"""By how much a mean may differ, since it depends on the order in which its numbers were added."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows were expected and came, and a sentence for each that is missing or wrong.

    `either` counts indeterminate rows, which were not compared.
    """

    expected: int
    actual: int
    missing: Sequence[str]
    wrong: Sequence[str]
    either: int = 0

    @property
    def passed(self) -> bool:
        """Tell whether nothing is missing or wrong."""
        return not self.missing and not self.wrong


def compare(
    expected: Mapping[Hashable, Row],
    actual: Mapping[Hashable, Row],
    fields: Sequence[str],
    kind: str,
    either: int = 0,
) -> Comparison:
    """Compare rows by key and, where both sides have one, by the fields.

    `kind` is what sentences call a row; `either` counts those that were left out.
    """
    wrong = []
    for key, row in actual.items():
        if key not in expected:
            wrong.append(f"{kind} {key} was not expected")
        elif fault := difference(expected[key], row, fields):
            wrong.append(f"{kind} {key}: {fault}")
    missing = [f"{kind} {key}" for key in expected if key not in actual]
    return Comparison(len(expected), len(actual), missing, wrong, either)


def compare_last(
    expected: Iterable[Row],
    actual: Iterable[Row],
    record: type[Struct],
    key_fields: Sequence[str],
    kind: str = "row",
) -> Comparison:
    """Compare the last row of each key by the record's other fields.

    Rows that the truth marks `either` are indeterminate: they are only counted.
    """
    rows = {key_of(row, key_fields): row for row in expected}
    either = {key for key, row in rows.items() if row.get("either")}
    return compare(
        {key: row for key, row in rows.items() if key not in either},
        {key: row for row in actual if (key := key_of(row, key_fields)) not in either},
        [name for name in record.__struct_fields__ if name not in key_fields],
        kind,
        len(either),
    )


def key_of(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    """Return the row's values of some fields."""
    return tuple(row[name] for name in names)


def difference(expected: Row, actual: Row, fields: Iterable[str]) -> str:
    """Return a sentence on the fields of a row that differ, empty if none does."""
    return "; ".join(
        f"{name} is {actual.get(name)!r}, not {expected[name]!r}"
        for name in fields
        if not _equal(expected[name], actual.get(name))
    )


def _equal(expected: object, actual: object) -> bool:
    if isinstance(expected, float) and isinstance(actual, float | int):
        return math.isclose(expected, actual, rel_tol=RELATIVE_TOLERANCE)
    return expected == actual
