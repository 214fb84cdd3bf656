"""The archive's row of the verdict: files as the file sink and the compaction leave them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo import verdict_command
from demo.archived import ArchiveCheck, ArchiveReader, compare_archive
from demo.comparison import Comparison
from demo.verdict_command import _wait_for_archive
from events.cli import UserFacingError
from producer.positions import position_of

HOUR = "date=2026-11-24/hour=12"
TOPIC = "rack-readings"


def write(file: Path, positions: Sequence[tuple[int, int]], contains: Sequence[str] = ()) -> None:
    """Write a file with records at these partitions and offsets."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partitions, offsets = zip(*positions, strict=True)
    columns = {
        "partition": pa.array(partitions, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        "value": pa.array(["x"] * len(positions)),
    }
    table = pa.table(columns)
    pq.write_table(
        table.replace_schema_metadata({"contains": json.dumps(contains)}) if contains else table,
        file,
    )


def small(folder: Path, batch: str, name: str, positions: Sequence[tuple[int, int]]) -> str:
    """Land a small file of `name`, such as `kind=readable/a`, in a batch, and return its path."""
    kind, _, stem = name.partition("/")
    path = f"{kind}/{HOUR}/{stem}.parquet"
    landing = folder / "landing" / TOPIC
    write(landing / path, positions)
    log = landing / "_spark_metadata"
    log.mkdir(exist_ok=True)
    entry = log / batch
    lines = entry.read_text(encoding="utf-8") if entry.exists() else "v1\n"
    entry.write_text(
        f"{lines}{json.dumps({'path': f'file://{landing}/{path}'})}\n", encoding="utf-8"
    )
    return path


def compared(
    folder: Path, offsets: Mapping[int, range], unreadable: Sequence[tuple[int, int]] = ()
) -> Comparison:
    bad = {TOPIC: np.array([position_of(*position) for position in unreadable], dtype=np.int64)}
    return compare_archive({TOPIC: offsets}, ArchiveReader(folder).read(), bad)


def test_all_records_once_pass_and_each_difference_is_named(tmp_path: Path) -> None:
    small(tmp_path, "0", "kind=readable/a", [(0, 0), (0, 1), (1, 0)])
    small(tmp_path, "1", "kind=unreadable/b", [(1, 1)])
    offsets = {0: range(2), 1: range(2)}
    assert compared(tmp_path, offsets, [(1, 1)]) == Comparison(4, 4, [], [])

    missing = compared(tmp_path, {0: range(2), 1: range(3)}, [(1, 1)])
    assert (missing.expected, missing.actual) == (5, 4)
    assert missing.missing == [f"record 2 of partition 1 of {TOPIC} is not archived"]

    foreign = compared(tmp_path, {0: range(1), 1: range(2)}, [(1, 1)])
    assert foreign.wrong == [f"record 1 of partition 0 of {TOPIC} is archived and not in its topic"]

    other_kind = compared(tmp_path, offsets, [(0, 1)])
    assert other_kind.wrong == [
        f"record 1 of partition 0 of {TOPIC} is archived with the wrong kind",
        f"record 1 of partition 1 of {TOPIC} is archived with the wrong kind",
    ]

    small(tmp_path, "2", "kind=readable/c", [(1, 0)])
    assert compared(tmp_path, offsets, [(1, 1)]).wrong == [
        f"record 0 of partition 1 of {TOPIC} is archived more than once"
    ]


def test_files_that_the_log_does_not_list_do_not_count_and_a_compacted_log_repeats_all(
    tmp_path: Path,
) -> None:
    write(tmp_path / "landing" / TOPIC / "kind=readable" / HOUR / "killed.parquet", [(0, 7)])
    small(tmp_path, "8", "kind=readable/a", [(0, 0)])
    small(tmp_path, "9.compact", "kind=readable/a", [(0, 0)])
    small(tmp_path, "9.compact", "kind=readable/b", [(0, 1)])
    small(tmp_path, "10", "kind=readable/c", [(0, 2)])
    assert compared(tmp_path, {0: range(3)}) == Comparison(3, 3, [], [])


def test_a_small_file_that_is_merged_counts_once_whether_it_is_still_there_or_not(
    tmp_path: Path,
) -> None:
    merged = small(tmp_path, "0", "kind=readable/a", [(0, 0), (0, 1)])
    small(tmp_path, "1", "kind=readable/b", [(0, 2)])
    target = tmp_path / "compacted" / TOPIC / "kind=readable" / HOUR / "records.parquet"
    write(target, [(0, 0), (0, 1)], [merged])
    assert compared(tmp_path, {0: range(3)}) == Comparison(3, 3, [], [])
    (tmp_path / "landing" / TOPIC / merged).unlink()
    assert compared(tmp_path, {0: range(3)}) == Comparison(3, 3, [], [])


def test_records_that_retention_has_removed_may_be_archived_and_of_compacted_topics_any(
    tmp_path: Path,
) -> None:
    small(tmp_path, "0", "kind=readable/a", [(0, 0), (0, 1), (0, 2)])
    assert compared(tmp_path, {0: range(2, 3)}) == Comparison(1, 1, [], [])
    (tmp_path / "landing" / TOPIC).rename(tmp_path / "landing" / "incidents")
    read = ArchiveReader(tmp_path).read()
    assert compare_archive({"incidents": {0: range(3)}}, read, {}).passed
    assert compare_archive({"incidents": {0: range(4)}}, read, {}).missing == [
        "record 3 of partition 0 of incidents is not archived"
    ]


def test_what_came_after_the_check_was_made_may_be_archived_or_not(tmp_path: Path) -> None:
    small(tmp_path, "0", "kind=readable/a", [(0, 0), (0, 2)])
    read = ArchiveReader(tmp_path).read()
    due, stored = {TOPIC: {0: range(2), 1: range(1)}}, {TOPIC: {0: range(4), 1: range(1, 3)}}
    # Record 2 is archived and record 3 is not; retention has removed record 0 of partition 1.
    assert compare_archive(stored, read, {}, due=due) == Comparison(
        3, 2, [f"record 1 of partition 0 of {TOPIC} is not archived"], []
    )
    assert compare_archive({TOPIC: {0: range(2), 1: range(1, 3)}}, read, {}, due=due).wrong == [
        f"record 2 of partition 0 of {TOPIC} is archived and not in its topic"
    ]


class Checks(ArchiveCheck):
    """A check whose comparisons are given; the last one comes again and again."""

    def __init__(self, *results: Comparison | FileNotFoundError) -> None:
        self._results = list(results)

    def compare(self) -> Comparison:
        """Return or raise the next result."""
        result = self._results.pop(0) if len(self._results) > 1 else self._results[0]
        if isinstance(result, FileNotFoundError):
            raise result
        return result


def test_a_file_that_a_compaction_removes_meanwhile_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verdict_command, "ARCHIVE_POLL_S", 0.01)
    removed = FileNotFoundError("no small.parquet")
    partly, all_there = Comparison(2, 1, ["one"], []), Comparison(2, 2, [], [])
    assert _wait_for_archive(Checks(removed, partly, removed, all_there), 30) == all_there
    assert _wait_for_archive(Checks(partly), 0.05) == partly
    sentence = re.escape("the archive lacks a file that it lists: no small.parquet.")
    with pytest.raises(UserFacingError, match=f"^{sentence}$"):
        _wait_for_archive(Checks(removed), 0.05)
