"""The inventory: racks line by line, and which line is wrong."""

from pathlib import Path

import pytest

from events.cli import PersonError
from events.inventory import read_inventory, write_inventory
from events.records import InventoryRack

HOT_RACK = InventoryRack(
    rack_id="rack-0001", site_id="site-1", device_type="gpu", threshold_c=85.5, readings_per_second=2.0
)
GOOD = (
    b'{"rack_id":"rack-0001","site_id":"site-1","device_type":"gpu","threshold_c":85.5,'
    b'"readings_per_second":2.0}'
)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "racks.jsonl"
    write_inventory(path, [HOT_RACK])
    assert path.read_bytes() == GOOD + b"\n"
    assert read_inventory(path) == [HOT_RACK]


def test_empty_lines_and_unknown_fields_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "racks.jsonl"
    path.write_bytes(b"\n" + GOOD[:-1] + b',"room":"r1"}\n  \n')
    assert read_inventory(path) == [HOT_RACK]


@pytest.mark.parametrize(
    ("second_line", "complaint"),
    [
        (b"{", "line 2 of the inventory .* is wrong: Input data was truncated"),
        (b"{}", "line 2 of the inventory .* is wrong: .*missing required field `rack_id`"),
        (
            GOOD.replace(b"85.5", b'"hot"'),
            r"line 2 of the inventory .* is wrong: Expected `float`, got `str` - at `\$.threshold_c`",
        ),
        (GOOD, "line 2 of the inventory .* repeats the rack 'rack-0001'"),
    ],
)
def test_the_line_that_is_wrong_is_named(tmp_path: Path, second_line: bytes, complaint: str) -> None:
    path = tmp_path / "racks.jsonl"
    path.write_bytes(GOOD + b"\n" + second_line + b"\n")
    with pytest.raises(PersonError, match=complaint):
        read_inventory(path)


def test_a_missing_file_is_named_with_the_option_to_check(tmp_path: Path) -> None:
    with pytest.raises(PersonError, match=r"nowhere.jsonl cannot be read \(No such file .*check --inventory"):
        read_inventory(tmp_path / "nowhere.jsonl")


def test_a_line_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "racks.jsonl"
    path.write_bytes(GOOD.replace(b"gpu", b"\xff\xfe") + b"\n")
    with pytest.raises(PersonError, match="line 1 of the inventory"):
        read_inventory(path)


@pytest.mark.parametrize("threshold", [b"NaN", b"1e999"])
def test_a_threshold_that_is_no_finite_number_is_refused(tmp_path: Path, threshold: bytes) -> None:
    path = tmp_path / "racks.jsonl"
    path.write_bytes(GOOD.replace(b"85.5", threshold) + b"\n")
    with pytest.raises(PersonError, match="line 1 of the inventory"):
        read_inventory(path)
