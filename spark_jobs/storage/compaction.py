"""Merge the many small files of `archive` into one file per hour, which any reader can read.

A small file counts when the file sink's log (`_spark_metadata`) lists it; what a killed batch left
is not listed. A compacted file names in its footer the small files that it contains, and replaces
its predecessor in one step. So a compaction that is killed neither loses nor duplicates a record,
and the next one continues. The log is only read, so the job may run meanwhile.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from events.cli import UserFacingError
from events.files import exclusive_lock
from spark_jobs.runtime.checkpoints import FILE_SINK_LOG

NAME = "records.parquet"
_LONGEST_CLOCK_STEP_NS = 24 * 3600 * 10**9
"""No clock is set back by more while a batch runs."""
_CONTAINED_FILES = b"contains"
"""The footer's key for the names of the small files in a compacted file."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result for one topic: how many small files and records went into how many hours."""

    topic: str
    small_files: int
    hours: int
    records: int


def compact(archive: Path) -> Iterator[Compacted]:
    """Compact one topic after the other, and remove the small files that are merged.

    Raises `UserFacingError` when there is no archive, when another compaction is running, and at
    the end when a topic could not be compacted, because a file is damaged or the disk is full.
    """
    landing = archive / "landing"
    if not landing.is_dir():
        raise UserFacingError(
            f"there is no archive in {archive}: run python -m spark_jobs run archive first."
        )
    with exclusive_lock(
        archive / "compact.lock",
        f"another compaction is running on {archive}: wait until it has finished.",
    ):
        failed = []
        for topic in sorted(landing.iterdir()):
            log = topic / FILE_SINK_LOG
            if not log.is_dir():
                continue
            try:
                done = _compact_topic(topic, log, archive / "compacted" / topic.name)
            except (UserFacingError, OSError, ValueError) as error:  # those of Arrow and JSON, too
                failed.append(f"{topic.name} ({error})")
            else:
                yield done
        if failed:
            raise UserFacingError(
                f"not compacted: {'; '.join(failed)}. The next compaction continues."
            )


def committed_files(log: Path) -> list[str]:
    """Return the files that a file sink's log lists, relative to the sink's folder.

    Such as `kind=readable/.../part-0.parquet`. The log has one file per batch, and every tenth
    (`9.compact`) repeats all entries before it.
    """
    batches = {int(file.name.partition(".")[0]): file for file in _log_entries(log)}
    first = max(
        (number for number, file in batches.items() if file.suffix == ".compact"), default=0
    )
    files: dict[str, None] = {}
    for number in sorted(number for number in batches if number >= first):
        text = batches[number].read_text(encoding="utf-8")
        version, *lines = text.splitlines() or ["unknown"]
        if version != "v1":
            raise UserFacingError(
                f"{batches[number]} is a log of version {version}: only v1 is supported."
            )
        for line in lines:
            path = unquote(urlsplit(json.loads(line)["path"]).path)
            files["/".join(path.split("/")[-4:])] = None
    return list(files)


def _log_entries(log: Path) -> list[Path]:
    """Return the log's files, one per committed batch.

    The sink writes an entry under a hidden name (`.5.UUID.tmp`), and commits it by a rename.
    """
    return [file for file in log.iterdir() if file.name[0].isdigit()]


def _compact_topic(landing: Path, log: Path, target: Path) -> Compacted:
    written_ns = max((file.stat().st_mtime_ns for file in _log_entries(log)), default=0)
    hours: dict[str, list[str]] = defaultdict(list)
    for name in committed_files(log):
        hours[name.rpartition("/")[0]].append(name)
    small_files = records = changed = 0
    for hour, small in hours.items():
        file = target / hour / NAME
        contained = _contained_files(file)
        # A file that is gone was merged before, into a compacted file that was deleted since.
        new = [name for name in small if name not in contained and (landing / name).exists()]
        if new:
            records += _merge(file, contained, [landing / name for name in new], new)
            small_files += len(new)
            changed += 1
        if any((landing / hour).glob("*")):  # the log lists old hours, too, whose folders are empty
            for name in small:
                _remove(landing / name)
    _remove_uncommitted_files(landing, log, written_ns)
    return Compacted(landing.name, small_files, changed, records)


def _contained_files(file: Path) -> list[str]:
    if not file.exists():
        return []
    with _named(file):
        footer = pq.read_metadata(file).metadata or {}
    if _CONTAINED_FILES not in footer:
        raise UserFacingError(f"{file} cannot be read: its footer names no small files")
    names: list[str] = json.loads(footer[_CONTAINED_FILES])
    return names


def _merge(file: Path, contained: list[str], parts: list[Path], names: list[str]) -> int:
    """Rewrite the hour's file with its own records and those of the parts; return their number.

    It holds one batch of rows in memory at a time.
    """
    sources = [*([file] if contained else []), *parts]
    schema = pa.unify_schemas([_schema(source) for source in sources], promote_options="permissive")
    schema = schema.with_metadata({_CONTAINED_FILES: json.dumps([*contained, *names]).encode()})
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{NAME}.unfinished")
    records = 0
    with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for batch in _batches(sources):
            writer.write_batch(_with_schema(batch, schema))
            records += batch.num_rows
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    unfinished.replace(file)
    return records


def _schema(file: Path) -> pa.Schema:
    with _named(file):
        return pq.read_schema(file).remove_metadata()


def _batches(sources: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for source in sources:
        with _named(source), pq.ParquetFile(source) as parquet:
            yield from parquet.iter_batches(batch_size=100_000)


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file in the error if it is damaged, for which Arrow has several errors."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise UserFacingError(f"{file} cannot be read: {str(error).strip()}") from None


def _with_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in a schema that may have more fields, which are null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _remove_uncommitted_files(landing: Path, log: Path, written_ns: int) -> None:
    """Remove files that the log does not list and that are a day older than `written_ns`.

    That is when the log's last entry was written, as the compaction began. The files come from a
    batch that did not finish. A running batch starts after the log lists the one before, so its
    files are younger, or as much older as the clock was set back. The log is read again, because a
    batch may have been committed meanwhile.
    """
    oldest_running_ns = written_ns - _LONGEST_CLOCK_STEP_NS
    files = list(landing.glob("kind=*/date=*/hour=*/*.parquet"))
    names = set(committed_files(log))
    for file in files:
        listed = str(file.relative_to(landing)) in names
        if not listed and file.stat().st_mtime_ns < oldest_running_ns:
            _remove(file)


def _remove(file: Path) -> None:
    """Remove a small file, and the checksum that Hadoop writes beside it.

    The checksum goes first: a file without one is still found by the next compaction, while
    nothing finds the checksum of an uncommitted file that is gone.
    """
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.unlink(missing_ok=True)
