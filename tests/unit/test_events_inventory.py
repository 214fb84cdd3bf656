"""The inventory: racks line by line, and which line is wrong."""

from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.inventory import read_inventory, write_inventory
from tests.builders import rack

HOT_RACK = rack(site_id="site-1", device_type="gpu", threshold_c=85.5, readings_per_second=2.0)
GOOD = (
    b'{"rack_id":"rack-0001","site_id":"site-1","device_type":"gpu","threshold_c":85.5,'
    b'"readings_per_second":2.0}'
)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "racks.jsonl"
    write_inventory(path, [HOT_RACK])
    assert path.read_bytes() == GOOD + b"\n"
    assert read_inventory(path) == [HOT_RACK]


def test_who_reads_meanwhile_sees_the_old_racks_and_never_a_part(tmp_path: Path) -> None:
    path = tmp_path / "racks.jsonl"
    write_inventory(path, [HOT_RACK])
    with path.open("rb") as reading:
        write_inventory(path, [])
        assert reading.read() == GOOD + b"\n"
    assert read_inventory(path) == []


def test_empty_lines_and_unknown_fields_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "racks.jsonl"
    path.write_bytes(b"\n" + GOOD[:-1] + b',"room":"r1"}\n  \n')
    assert read_inventory(path) == [HOT_RACK]


def problem_of(path: Path, content: bytes) -> str:
    """Return the error for an inventory, without what precedes the number of the line."""
    path.write_bytes(content)
    with pytest.raises(UserFacingError) as error:
        read_inventory(path)
    return str(error.value).replace(f" of the inventory {path}", "")


def test_the_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    good = GOOD + b"\n"
    cases = {
        good + b"{\n": "line 2 is wrong: Input data was truncated",
        good + b"{}\n": "line 2 is wrong: Object missing required field `rack_id`",
        good + GOOD.replace(b"85.5", b'"hot"'): (
            "line 2 is wrong: Expected `float`, got `str` - at `$.threshold_c`"
        ),
        good + good: "line 2 repeats the rack 'rack-0001'",
        good + GOOD.replace(b"rack-0001", b"fleet"): (
            "line 2 has a rack 'fleet': in the topic rack-temperature this is the scope of all "
            "racks. Give the rack another id."
        ),
        GOOD.replace(b"gpu", b"\xff\xfe"): "line 1 is wrong: 'utf-8' codec can't decode",
        GOOD.replace(b"85.5", b"NaN"): "line 1 is wrong: JSON is malformed",
        GOOD.replace(b"85.5", b"1e999"): "line 1 is wrong: Number out of range",
        GOOD.replace(b"2.0", b"-2.0"): (
            "line 1 is wrong: Expected `float` >= 0.0 - at `$.readings_per_second`"
        ),
        GOOD.replace(b"2.0", b"1e308"): (
            "line 1 is wrong: Expected `float` <= 1000000000.0 - at `$.readings_per_second`"
        ),
        good + GOOD.replace(b"rack-0001", "ü".encode() * 129): (
            "line 2 is wrong: rack_id is longer than 256 bytes, so no reading could have it."
        ),
        GOOD.replace(b"gpu", "ü".encode() * 129): "line 1 is wrong: device_type is longer than",
    }
    path = tmp_path / "racks.jsonl"
    found = [problem_of(path, content) for content in cases]
    assert [text[: len(case)] for text, case in zip(found, cases.values(), strict=True)] == list(
        cases.values()
    )


def test_a_missing_file_is_named_with_the_option_to_check(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"nowhere.jsonl cannot be read \(No such file .*check --inventory"
    ):
        read_inventory(tmp_path / "nowhere.jsonl")


def test_a_file_that_cannot_be_written_is_named_with_the_option_to_correct(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"inventory .* cannot be written \(Is a dir.*correct --inventory"
    ):
        write_inventory(tmp_path, [HOT_RACK])
