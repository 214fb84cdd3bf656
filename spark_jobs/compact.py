"""From the many small files of `archive` to one file an hour, which readers can trust without knowing Spark's log.

What has landed counts when the file sink's log (`_spark_metadata`) has it; what a killed batch left does not. A
compacted file names in its own footer the small files that are in it, and replaces the one before it in one step. So
wherever a compaction is killed, no record is lost or there twice among the compacted, and the next one goes on. The
log is only read: the job may run meanwhile.
"""

import fcntl
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

from events.cli import PersonError

NAME = "records.parquet"
_CONTAINS = b"contains"
_LOG = "_spark_metadata"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of one topic: how many small files went into how many hours' files, with how many records."""

    topic: str
    small_files: int
    hours: int
    records: int


def compact(archive: Path) -> Iterator[Compacted]:
    """Compact what has landed, one topic after the other; small files are removed once they are in the hour's file.

    Raises `PersonError` when nothing is archived there or another compaction is at work.
    """
    landing = archive / "landing"
    if not landing.is_dir():
        raise PersonError(f"there is no archive in {archive}: run python -m spark_jobs run archive first.")
    with _alone(archive / "compact.lock"):
        for topic in sorted(landing.iterdir()):
            log = topic / _LOG
            if log.is_dir():
                yield _compact_topic(topic, log, archive / "compacted" / topic.name)


def committed(log: Path) -> list[str]:
    """Return the files that a file sink's log has, relative to its folder, such as `kind=readable/.../part-0.parquet`.

    The log is one file a batch, and every tenth has all before it too (`9.compact`).
    """
    batches = {int(file.name.partition(".")[0]): file for file in log.iterdir() if file.name[0].isdigit()}
    first = max((number for number, file in batches.items() if file.suffix == ".compact"), default=0)
    found: dict[str, None] = {}
    for number in sorted(number for number in batches if number >= first):
        version, *lines = batches[number].read_text(encoding="utf-8").splitlines()
        if version != "v1":
            raise PersonError(f"{batches[number]} is a log of version {version}, which is not known here.")
        for line in lines:
            path = unquote(urlsplit(json.loads(line)["path"]).path)
            found["/".join(path.split("/")[-4:])] = None
    return list(found)


def _compact_topic(landing: Path, log: Path, target: Path) -> Compacted:
    written_ns = max(file.stat().st_mtime_ns for file in log.iterdir())
    names = committed(log)
    hours: dict[str, list[str]] = defaultdict(list)
    for name in names:
        hours[name.rpartition("/")[0]].append(name)
    small_files = records = changed = 0
    for hour, small in hours.items():
        file = target / hour / NAME
        contained = _contained(file)
        new = [name for name in small if name not in contained]
        if new:
            records += _merge(file, contained, [landing / name for name in new], new)
            small_files += len(new)
            changed += 1
        for name in small:
            (landing / name).unlink(missing_ok=True)
    _remove_what_killed_batches_left(landing, set(names), written_ns)
    return Compacted(landing.name, small_files, changed, records)


def _contained(file: Path) -> list[str]:
    if not file.exists():
        return []
    names: list[str] = json.loads(pq.read_metadata(file).metadata[_CONTAINS])
    return names


def _merge(file: Path, contained: list[str], parts: list[Path], names: list[str]) -> int:
    """Write the hour's file anew, with what it has and the parts, a row group at a time; return its records."""
    sources = [*([file] if contained else []), *parts]
    schemas = [pq.read_schema(source).remove_metadata() for source in sources]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    schema = schema.with_metadata({_CONTAINS: json.dumps([*contained, *names]).encode()})
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{NAME}.unfinished")
    records = 0
    with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
        for batch in _batches(sources):
            writer.write_batch(_as(batch, schema))
            records += batch.num_rows
    with unfinished.open("rb") as written:
        os.fsync(written.fileno())
    unfinished.replace(file)
    return records


def _batches(sources: Iterable[Path]) -> Iterator[pa.RecordBatch]:
    for source in sources:
        with pq.ParquetFile(source) as parquet:
            yield from parquet.iter_batches(batch_size=100_000)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows in a schema that may have fields which they do not have yet."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _remove_what_killed_batches_left(landing: Path, names: set[str], written_ns: int) -> None:
    """Remove files older than the log's last entry that are not in it: the batch that wrote them was not finished.

    A batch begins after the log has the one before, so that what a running one has written is younger.
    """
    for file in landing.glob("kind=*/date=*/hour=*/*.parquet"):
        if str(file.relative_to(landing)) not in names and file.stat().st_mtime_ns < written_ns:
            file.unlink(missing_ok=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PersonError(
                f"another compaction is at work on {lock.parent}: wait until it is done."
            ) from None
        yield
