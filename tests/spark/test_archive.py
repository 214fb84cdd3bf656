"""The archive: every record once, unreadable ones beside the others, and one file per hour.

Spark and DuckDB read the same rows.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from events.cli import UserFacingError
from events.records import RackReading, encode
from events.triggers import Trigger
from spark_jobs import compact_command
from spark_jobs.runtime.kafka_io import QueryOptions, write_files
from spark_jobs.runtime.parsing import parse
from spark_jobs.storage import compaction
from spark_jobs.storage.archive import archive_rows
from spark_jobs.storage.compaction import committed_files, compact
from tests.builders import reading

GOOD = [encode(reading(number)) for number in range(6)]
BAD = [b"{", b"\xff", None]
BATCHES = 12
DAY_S = 24 * 3600
"""More than the ten batches after which the sink's log is compacted."""

Row = tuple[int, int, str | None, str | None, str | None]  # partition, offset, event, value, error


def records(values: Sequence[bytes | None], first_offset: int, hour: int) -> pa.Table:
    """Return records as a topic holds them, appended in an hour of a day."""
    count = len(values)
    return pa.table(
        {
            "key": pa.array([b"rack-0001"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
            "timestamp": pa.array(
                [datetime(2026, 11, 18, hour, 59, 59, 999000, tzinfo=UTC)] * count,
                pa.timestamp("us", "UTC"),
            ),
        }
    )


class Archive:
    """A topic's archive in its own folder, written batch by batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.root = spark, folder, folder / "archive"
        self.landing = self.root / "landing" / "rack-readings"
        self.compacted = self.root / "compacted" / "rack-readings"
        self.expected: dict[int, bytes | None] = {}

    def land(self, batches: Sequence[tuple[int, Sequence[bytes | None]]]) -> None:
        """Archive batches of values, each with the hour in which it was appended."""
        topic = self.folder / "topic"
        topic.mkdir(exist_ok=True)
        for hour, values in batches:
            number = len(list(topic.iterdir()))
            file = topic / f"{number}.parquet"
            pq.write_table(records(values, len(self.expected), hour), file)
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
            self.expected |= dict(enumerate(values, len(self.expected)))
        schema = "key binary, value binary, partition int, offset bigint, timestamp timestamp"
        stream = (
            self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(topic))
        )
        options = QueryOptions(
            "archive",
            str(self.folder / "checkpoint"),
            "append",
            Trigger.AVAILABLE_NOW,
            timedelta(0),
        )
        query = write_files(
            archive_rows(parse(stream, RackReading, in_jvm=True)), str(self.landing), options
        )
        assert query.awaitTermination(300)

    def compact(self) -> int:
        """Compact, and return how many small files were merged."""
        return sum(done.small_files for done in compact(self.root))

    def landed_files(self) -> list[str]:
        """Return all files of the landing but the sink's log, with Hadoop's hidden checksums."""
        files = self.landing.glob("kind=*/**/*")
        return sorted(str(file.relative_to(self.landing)) for file in files if file.is_file())

    def files(self, folder: Path) -> list[str]:
        """Return the Parquet files in a folder, by their paths in it."""
        return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.parquet"))


def by_offset(rows: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    found = {row[0]: tuple(row[1:]) for row in rows}
    assert len(found) == len(rows), "a record is there twice"
    return found


def read_by_duckdb(archive: Archive, kind: str) -> dict[int, tuple[Any, ...]]:
    rows = duckdb.execute(
        f"FROM read_parquet('{archive.compacted}/kind={kind}/**/*.parquet', "
        "hive_types = {'hour': VARCHAR}) "  # numbers if no hour begins with 0
        'SELECT "offset", event_id, sequence, temperature_c, value, value_bytes, error, key, hour'
    ).fetchall()
    return by_offset(rows)


def read_by_spark(frame: DataFrame) -> dict[int, tuple[Any, ...]]:
    columns = [
        "offset",
        "event_id",
        "sequence",
        "temperature_c",
        "value",
        "value_bytes",
        "error",
        "key",
        "hour",
    ]
    rows = [tuple(row) for row in frame.select(*columns).collect()]
    return by_offset(
        [(*row[:5], row[5] and bytes(row[5]), *row[6:8], f"{int(row[8]):02d}") for row in rows]
    )


def expected_rows(archive: Archive, hours: dict[int, str]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Return the readable and the unreadable rows that the archive must have."""
    readable, unreadable = {}, {}
    for offset, value in archive.expected.items():
        try:
            fields = json.loads(value or b"")
        except ValueError:
            text = None if value is None or b"\xff" in value else value.decode()
            raw = value if value is not None and b"\xff" in value else None
            unreadable[offset] = (None, None, None, text, raw, hours[offset])
        else:
            readable[offset] = (
                fields["event_id"], fields["sequence"], fields["temperature_c"], None, None, None,
                "rack-0001", hours[offset],
            )  # fmt: skip
    return readable, unreadable


@pytest.fixture(scope="module")
def landed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """Return an archive of twelve batches in two hours, not compacted."""
    archive = Archive(spark, tmp_path_factory.mktemp("archive"))
    archive.land(
        [
            (16 + number // 8, [GOOD[number % 6], *(BAD if number % 5 == 0 else [])])
            for number in range(BATCHES)
        ]
    )
    return archive


@pytest.fixture
def archive(landed: Archive, tmp_path: Path) -> Archive:
    """Return a copy that a test may change."""
    own = Archive(landed.spark, tmp_path / "own")
    shutil.copytree(landed.folder, own.folder)
    own.expected = dict(landed.expected)
    return own


def hours_of(archive: Archive) -> dict[int, str]:
    hours, offset = {}, 0
    for number in range(BATCHES):
        for _ in range(1 + (3 if number % 5 == 0 else 0)):
            hours[offset] = f"{16 + number // 8}"
            offset += 1
    return hours | dict.fromkeys(range(offset, len(archive.expected)), "18")


def test_spark_reads_each_landed_record_once(landed: Archive) -> None:
    readable, unreadable = expected_rows(landed, hours_of(landed))
    found = landed.spark.read.parquet(str(landed.landing))
    assert read_by_spark(found.where("kind = 'readable'")) == readable
    bad = read_by_spark(found.where("kind = 'unreadable'"))
    assert {offset: (*row[:5], row[7]) for offset, row in bad.items()} == unreadable
    assert {row[5] for row in bad.values()} == {
        "the value is not one JSON object",
        "the value is not UTF-8",
        "the value is empty",
    }
    assert len(landed.files(landed.landing)) > BATCHES
    assert len(landed.landed_files()) == 2 * len(landed.files(landed.landing))


def test_a_compacted_archive_has_one_file_per_hour_for_spark_and_duckdb(
    archive: Archive,
) -> None:
    readable, _ = expected_rows(archive, hours_of(archive))
    assert archive.compact() > BATCHES
    assert archive.files(archive.compacted) == [
        f"kind={kind}/date=2026-11-18/hour={hour}/records.parquet"
        for kind in ("readable", "unreadable")
        for hour in ("16", "17")
    ]
    assert archive.landed_files() == []
    assert read_by_duckdb(archive, "readable") == readable
    assert (
        read_by_spark(archive.spark.read.parquet(f"{archive.compacted}/kind=readable")) == readable
    )
    assert len(read_by_duckdb(archive, "unreadable")) == 9
    assert archive.compact() == 0


@pytest.mark.full
def test_the_job_continues_after_a_compaction_and_the_next_one_adds_new_records(
    spark: SparkSession, tmp_path: Path
) -> None:
    archive = Archive(spark, tmp_path)
    for values in (GOOD[:2], GOOD[2:5], GOOD[5:]):
        archive.land([(18, values)])
        assert archive.compact() == 1
        hours = dict.fromkeys(archive.expected, "18")
        assert read_by_duckdb(archive, "readable") == expected_rows(archive, hours)[0]


def test_files_of_a_killed_batch_are_not_read_and_are_removed(archive: Archive) -> None:
    (committed_file, *_) = committed_files(archive.landing / "_spark_metadata")
    left = archive.landing / Path(committed_file).with_name(
        "part-00000-of-a-killed-batch.snappy.parquet"
    )
    running = left.with_name("part-00001-of-a-running-batch.snappy.parquet")
    shutil.copy(archive.landing / committed_file, left)
    shutil.copy(archive.landing / committed_file, running)
    os.utime(left, (1_700_000_000, 1_700_000_000))
    archive.compact()
    assert not left.exists()
    assert running.exists()
    assert read_by_duckdb(archive, "readable") == expected_rows(archive, hours_of(archive))[0]


class Landing:
    """A topic's landing folder, written without Spark."""

    def __init__(self, root: Path, topic: str = "rack-readings") -> None:
        self.root, self.folder = root, root / "landing" / topic
        self.log = self.folder / "_spark_metadata"
        self.log.mkdir(parents=True)

    def write(self, number: int, written_s: int) -> Path:
        """Write the data file of a batch, and its checksum as Hadoop names it."""
        file = self.folder / f"kind=readable/date=2026-11-18/hour=16/part-{number}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"offset": [number]}), file)
        checksum = file.with_name(f".part-{number}.parquet.crc")
        checksum.write_bytes(b"crc")
        for written in (file, checksum):
            os.utime(written, (written_s, written_s))
        return file

    def files(self) -> list[str]:
        """Return the names of all files but the log's, hidden ones too."""
        return sorted(file.name for file in self.folder.glob("kind=*/**/*") if file.is_file())

    def log_as(self, name: str, file: Path, written_s: int) -> None:
        """Write an entry of the sink's log under a name."""
        entry = self.log / name
        entry.write_text(f"v1\n{json.dumps({'path': file.as_uri()})}", encoding="utf-8")
        os.utime(entry, (written_s, written_s))


def test_files_of_a_batch_that_is_being_committed_stay(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.log_as("4", landing.write(4, 100), 110)
    being_committed = landing.write(5, 200)
    landing.log_as(".5.abc.tmp", being_committed, 210)
    list(compact(tmp_path))
    assert being_committed.exists()
    (landing.log / ".5.abc.tmp").rename(landing.log / "5")
    assert [done.small_files for done in compact(tmp_path)] == [1]


def test_files_of_a_batch_that_is_committed_during_a_compaction_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing = Landing(tmp_path)
    landing.log_as("4", landing.write(4, 100 + DAY_S), 110 + DAY_S)
    # The clock was set back by more than a day, so its file looks left over.
    committed = landing.write(5, 90)
    merge = compaction._merge

    def merge_while_batch_is_committed(*arguments: Any) -> int:
        landing.log_as("5", committed, 95)
        return merge(*arguments)

    monkeypatch.setattr(compaction, "_merge", merge_while_batch_is_committed)
    list(compact(tmp_path))
    assert committed.exists()


def test_a_log_without_an_entry_is_compacted_without_removing_files(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    first = landing.write(0, 100)
    assert [done.small_files for done in compact(tmp_path)] == [0]
    assert first.exists()


def with_noise(content: bytes, damage: str) -> bytes:
    """Return a Parquet file's content with a damaged footer or damaged pages, or no content."""
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    begin, end = {"footer": (footer, len(content) - 8), "pages": (4, footer)}.get(damage, (0, 0))
    noise = content[:begin] + b"\xff" * (end - begin) + content[end:]
    return b"" if damage == "empty" else noise


@pytest.mark.parametrize("damage", ["empty", "footer", "pages"])
def test_a_damaged_file_does_not_keep_other_topics_from_being_compacted(
    tmp_path: Path, damage: str
) -> None:
    damaged, whole = Landing(tmp_path, "ad-clicks"), Landing(tmp_path, "user-actions")
    for topic in (damaged, whole):
        topic.log_as("0", topic.write(0, 100), 110)
    broken = next(damaged.folder.rglob("*.parquet"))
    broken.write_bytes(with_noise(broken.read_bytes(), damage))
    compacted = compact(tmp_path)
    assert next(compacted).topic == "user-actions"
    named = rf"^not compacted: ad-clicks \({re.escape(str(broken))} cannot be read"
    with pytest.raises(UserFacingError, match=named):
        next(compacted)
    assert broken.exists()


def test_a_topic_is_compacted_after_an_old_day_was_deleted(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.log_as("0", landing.write(0, 100), 110)
    list(compact(tmp_path))
    compacted = tmp_path / "compacted" / "rack-readings" / "kind=readable"
    shutil.rmtree(compacted / "date=2026-11-18")
    landing.log_as("1", landing.write(1, 120), 130)
    assert [done.small_files for done in compact(tmp_path)] == [1]
    assert [done.small_files for done in compact(tmp_path)] == [0]
    (file,) = compacted.rglob("*.parquet")
    assert pq.read_table(file, partitioning=None)["offset"].to_pylist() == [1]


@pytest.mark.parametrize("damage", ["empty", "foreign", "footer"])
def test_a_damaged_compacted_file_is_named(tmp_path: Path, damage: str) -> None:
    landing = Landing(tmp_path)
    landing.log_as("0", landing.write(0, 100), 110)
    list(compact(tmp_path))
    (file,) = (tmp_path / "compacted").rglob("*.parquet")
    if damage == "foreign":
        pq.write_table(pa.table({"offset": [0]}), file, store_schema=False)
    else:
        file.write_bytes(with_noise(file.read_bytes(), damage))
    small = landing.write(1, 120)
    landing.log_as("1", small, 130)
    with pytest.raises(
        UserFacingError, match=rf"^not compacted: .*{re.escape(str(file))} cannot be"
    ):
        list(compact(tmp_path))
    assert small.exists()


def test_a_compaction_removes_the_checksums_with_the_files(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.write(0, 90)  # of a killed batch: the log does not list it
    landing.log_as("1", landing.write(1, 100 + DAY_S), 110 + DAY_S)
    landing.write(2, 120 + DAY_S)  # of a running batch
    list(compact(tmp_path))
    assert landing.files() == [".part-2.parquet.crc", "part-2.parquet"]


def test_files_of_a_running_batch_stay_though_the_clock_was_set_back(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    landing.log_as("4", landing.write(4, 100 + DAY_S), 110 + DAY_S)
    running = landing.write(5, 110 + DAY_S - 3600)
    list(compact(tmp_path))
    assert running.exists()


def test_checksums_that_an_earlier_version_left_are_removed(tmp_path: Path) -> None:
    landing = Landing(tmp_path)
    small = landing.write(1, 100)
    landing.log_as("1", small, 110)
    list(compact(tmp_path))
    landing.write(1, 100)
    small.unlink()
    assert landing.files() == [".part-1.parquet.crc"]
    list(compact(tmp_path))
    assert landing.files() == []


def test_an_interval_of_no_length_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError, match="--every is longer than 0"):
        compact_command.compact(tmp_path, every_ms=0)


def test_a_compaction_killed_before_it_removed_the_small_files_continues(
    archive: Archive,
) -> None:
    before = archive.folder / "before"
    shutil.copytree(archive.landing, before)
    archive.compact()
    shutil.rmtree(archive.landing)
    before.rename(archive.landing)
    hour = archive.compacted / "kind=readable/date=2026-11-18/hour=17"
    shutil.rmtree(hour)  # killed between two hours
    hour.mkdir()
    (hour / ".records.parquet.unfinished").write_bytes(b"half a file")
    archive.compact()
    assert archive.files(archive.landing) == []
    assert read_by_duckdb(archive, "readable") == expected_rows(archive, hours_of(archive))[0]


@pytest.mark.full
def test_files_of_one_hour_may_have_different_fields(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive(spark, tmp_path)
    archive.land([(17, GOOD[:4])])
    archive.compact()
    file = archive.compacted / "kind=readable/date=2026-11-18/hour=17/records.parquet"
    older = pq.read_table(file, partitioning=None)
    pq.write_table(older.drop_columns(["signal_strength"]), file)
    archive.land([(17, GOOD[4:5])])
    archive.compact()
    found = duckdb.execute(f"SELECT count(*), count(signal_strength) FROM '{file}'").fetchall()  # noqa: S608
    assert found == [(5, 1)]


def test_compacting_without_an_archive_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError,
        match=r"there is no archive in .*: run python -m spark_jobs run archive first",
    ):
        list(compact(tmp_path))


def test_only_one_compaction_runs_at_a_time(archive: Archive) -> None:
    first = compact(archive.root)
    next(first)
    with pytest.raises(UserFacingError, match=r"another compaction is running"):
        next(compact(archive.root))
