"""The clickstream's jobs on a real broker: their outputs are right, through kills as well."""

import json
import uuid
from pathlib import Path
from typing import Any

import duckdb
import pytest

from events.times import now_ms
from events.topics import ALL, USER_ACTIONS, Topic
from tests.clickstream import INPUTS, Sent, expected, flush, found, history
from tests.integration.test_jobs import Pipeline
from tests.support import Kafka, run

pytestmark = pytest.mark.full

STATE_FORMATS = {
    "streaming.join.stateFormatVersion": "4",
    "shuffle.partitions": "2",
    "streaming.multipleWatermarkPolicy": "min",
}
JOBS = ("ad_attribution", "action_counts", "user_sessions", "user_totals", "deduplicate", "archive")
COUNTING_JOBS = JOBS[:-1]
"""The archive leaves nothing out."""


class Clickstream(Pipeline):
    """A test's own topics, checkpoints and archive."""

    @property
    def archive(self) -> Path:
        """The archive's folder."""
        return self.folder / "archive"

    def send(self, sent: Sent, first: int = 0, last: int | None = None) -> None:
        """Append a part of a history to the topics, in its order within each."""
        for topic in {topic for topic, _, _ in sent.records}:
            self.kafka.send(
                topic, [(key, value) for to, key, value in sent.records[first:last] if to is topic]
            )

    def different(self, sent: Sent) -> dict[str, tuple[list[object], list[object]]]:
        """Return per output what is missing and what is wrong; nothing when it is right."""
        must, is_there = expected(sent), found(self.kafka)
        result = {}
        for name, right in must.items():
            right_items = set(right.items() if isinstance(right, dict) else right)
            items = set(is_there[name].items() if isinstance(right, dict) else is_there[name])
            if right_items != items:
                result[name] = (list(right_items - items)[:5], list(items - right_items)[:5])
        return result

    def old_dead_letters(self) -> dict[Path, bytes]:
        """Return the files of the query that reported a job's dead letters in earlier versions."""
        files = (self.root / "user_totals-dead-letters").rglob("*")
        return {file: file.read_bytes() for file in files if file.is_file()}

    def put_old_dead_letters(self) -> dict[Path, bytes]:
        """Put such a query's checkpoint in place, by which all of its topic is read; return it."""
        ends = {str(each.partition): each.offset + 1 for each in self.kafka.read_all(USER_ACTIONS)}
        offsets = {self.kafka.name(USER_ACTIONS): ends}
        watermark = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms(), "conf": {}}
        files = {
            "begun-with.json": '{"shape": {}}',
            "metadata": json.dumps({"id": str(uuid.uuid4())}),
            "offsets/0": f"v1\n{json.dumps(watermark)}\n{json.dumps(offsets)}",
            "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        }
        for name, text in files.items():
            file = self.root / "user_totals-dead-letters/micro-batch/v1" / self.kafka.prefix / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        return self.old_dead_letters()

    def left_out(self, sent: Sent, *progress: Path) -> dict[str, list[tuple[int, int]]]:
        """Return what each batch of a job counts as left out, and how much of it lies in the batch.

        The progress of a batch can be missing: that of one whose commit came just before a kill.
        """
        values = {(topic, value) for topic, value, _ in sent.left_out}
        places = [
            (self.kafka.name(topic), str(record.partition), record.offset)
            for topic in INPUTS
            for record in self.kafka.read_all(topic)
            if (topic, record.value) in values
        ]
        batches: dict[str, list[tuple[int, int]]] = {job: [] for job in COUNTING_JOBS}
        # A kill may cut the last line.
        for line in (line for file in progress for line in file.read_bytes().split(b"\n")[:-1]):
            row = json.loads(line)
            if row["name"] in batches:
                within = sum(was_read(*place, row["sources"]) for place in places)
                batches[row["name"]].append((row["records_left_out"], within))
        return batches

    def archived(self, topic: Topic) -> list[tuple[int, int]]:
        """Return partition and offset of each record in a topic's compacted archive."""
        files = self.archive / "compacted" / self.kafka.name(topic)
        query = f"SELECT partition, \"offset\" FROM read_parquet('{files}/**/*.parquet')"  # noqa: S608
        return sorted(duckdb.execute(query).fetchall())


def was_read(topic: str, partition: str, offset: int, sources: list[dict[str, Any]]) -> bool:
    """Tell whether a batch has read a record, by the offsets of its sources."""
    return any(
        (source["startOffset"] or {}).get(topic, {}).get(partition, 0)
        <= offset
        < source["endOffset"].get(topic, {}).get(partition, 0)
        for source in sources
    )


@pytest.fixture
def clickstream(topics: Kafka, tmp_path: Path) -> Clickstream:
    return Clickstream(topics, tmp_path)


def the_archive_has_each_record_once(clickstream: Clickstream) -> None:
    done = run("spark_jobs", "compact", f"--archive={clickstream.archive}", env=clickstream.env)
    assert done.returncode == 0, done.stderr
    for topic in ALL:
        positions = sorted(
            (record.partition, record.offset) for record in clickstream.kafka.read_all(topic)
        )
        if positions:
            assert clickstream.archived(topic) == positions, topic.name


def test_a_kill_within_batches_then_available_now_give_every_output(
    clickstream: Clickstream,
) -> None:
    sent = history(2, size=800)
    part = len(sent.records) // 2
    archive = f"--archive={clickstream.archive}"
    progress = [clickstream.folder / name for name in ("killed.jsonl", "once.jsonl")]
    small_batches = ("--records-per-batch=150", "--batch-seconds=1")
    live = ("--trigger=micro-batch", *small_batches, f"--progress={progress[0]}")

    def in_progress(job: str, least: int = 0) -> bool:
        """Tell whether a batch of a job has started and not ended."""
        started = clickstream.batches(job, "micro-batch", "offsets")
        return any(n >= least for n in started - clickstream.batches(job, "micro-batch", "commits"))

    def in_the_middle() -> bool:
        archived = (f"archive-{topic.name}" for topic in ALL)
        return in_progress("ad_attribution", 1) and any(map(in_progress, archived))

    clickstream.send(sent, 0, part // 2)
    old = clickstream.put_old_dead_letters()
    with clickstream.running(*live, archive, "--archive-seconds=1", jobs=JOBS) as process:
        # The archive starts when the other jobs have each ended a batch, and may have read all.
        clickstream.until(process, lambda: [*clickstream.root.glob("archive-*/**/offsets/0")])
        clickstream.send(sent, part // 2, part)
        clickstream.kill_while(process, in_the_middle)
    clickstream.send(sent, part)
    before = len(sent.records)
    flush(sent)
    clickstream.send(sent, before)
    # The rest is read in one task instead of one for each partition.
    once = ("--trigger=available-now", "--read-tasks=1", archive, f"--progress={progress[1]}")
    done = run(*clickstream.command(*once, jobs=JOBS), env=clickstream.env, timeout_s=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert clickstream.different(sent) == {}
    # Dead letters are reported from the start, and the checkpoint of before is left alone.
    assert clickstream.old_dead_letters() == old
    # Each job counts what it leaves out, in each batch.
    last = {(topic, reason) for topic, _, reason in sent.left_out[len(sent.left_out) // 2 :]}
    assert last == {(topic, reason) for topic in INPUTS for reason in ("unreadable", "future")}
    for job, batches in clickstream.left_out(sent, *progress).items():
        counted, within = zip(*batches, strict=True)
        assert counted == within, job
        assert sum(within) > 5, job
    # The archive starts after the other jobs, so that it holds all that they wrote.
    the_archive_has_each_record_once(clickstream)
    # The formats of state are fixed at the first start; the checkpoint has them.
    query = clickstream.root / "ad_attribution/micro-batch"
    (first_batch,) = query.glob(f"*/{clickstream.kafka.prefix}/offsets/0")
    settings = json.loads(first_batch.read_text(encoding="utf-8").splitlines()[1])["conf"]
    assert {name: settings.get(f"spark.sql.{name}") for name in STATE_FORMATS} == STATE_FORMATS
    version, commit = (
        (first_batch.parent.parent / "commits/0").read_text(encoding="utf-8").splitlines()
    )
    assert version == "v2"
    assert json.loads(commit)["stateUniqueIds"], "each version of state is named by who wrote it"

    # Other options are refused: they would misread the state.
    other = clickstream.command(*once, "--join=full", "--gap=1 hour", jobs=JOBS)
    refused = run(*other, env=clickstream.env)
    assert refused.returncode == 1
    assert "join was left and is now full" in refused.stderr
    assert "starting Spark" not in refused.stderr
