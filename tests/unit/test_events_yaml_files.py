"""A YAML file becomes a record, and a key that is given twice is refused with its line."""

from pathlib import Path
from typing import Any

import pytest

from events.cli import UserFacingError
from events.yaml_files import read_yaml


def content_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "rules.yaml"
    path.write_text(text, encoding="utf-8")
    return read_yaml(path, dict[str, Any], "the rules", "--rules")[0]


@pytest.mark.parametrize(
    ("text", "line", "key", "first"),
    [
        ("rules: [1]\nrules: [2]\n", 2, "rules", 1),
        ("rules:\n- rule: a\n  count: 3\n\n  count: 5\n", 5, "count", 3),
        ("rules:\n- {count: 3, 'count': 3}\n", 2, "count", 2),
    ],
)
def test_a_key_that_is_given_twice_is_refused(
    tmp_path: Path, text: str, line: int, key: str, first: int
) -> None:
    with pytest.raises(UserFacingError) as error:
        content_of(tmp_path, text)
    assert str(error.value) == (
        f"line {line} of the rules {tmp_path / 'rules.yaml'} is not YAML: "
        f"the key '{key}' is given twice, first in line {first}."
    )


def test_the_same_key_in_other_mappings_is_accepted(tmp_path: Path) -> None:
    assert content_of(tmp_path, "a: {b: 1}\nb: [{b: 2}, {b: 3}]\n") == {
        "a": {"b": 1},
        "b": [{"b": 2}, {"b": 3}],
    }


def test_a_key_may_override_that_of_a_merged_mapping(tmp_path: Path) -> None:
    assert content_of(tmp_path, "a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n") == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 3, "y": 2},
    }
