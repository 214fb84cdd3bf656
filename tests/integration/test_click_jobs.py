"""The clickstream's jobs against a real broker: what came out is what must, at once and through kills at any moment."""

import json
import os
import uuid
from functools import partial
from pathlib import Path

import duckdb
import pytest

from broker.server import RunningBroker
from broker.topics import create_topics
from events.topics import ALL, DEAD_LETTERS, DISTINCT_EVENTS, Topic
from tests.clickstream import Sent, expected, flush, found, history
from tests.integration.test_jobs import Pipeline, kill_tree
from tests.support import Kafka, run

pytestmark = [pytest.mark.broker, pytest.mark.timeout(1200)]

STATE_FORMATS = {
    "streaming.join.stateFormatVersion": "4",
    "shuffle.partitions": "4",
    "streaming.multipleWatermarkPolicy": "min",
}
JOBS = ("ad_attribution", "action_counts", "user_sessions", "user_totals", "deduplicate", "archive")


class Clickstream(Pipeline):
    """Topics, checkpoints and an archive of a test's own."""

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
        """Return per output what is missing and what is wrong; nothing when all is right."""
        must, is_there = expected(sent), found(self.kafka)
        result = {}
        for name, right in must.items():
            right_items = set(right.items() if isinstance(right, dict) else right)
            items = set(is_there[name].items() if isinstance(right, dict) else is_there[name])
            if right_items != items:
                result[name] = (list(right_items - items)[:5], list(items - right_items)[:5])
        return result

    def archived(self, topic: Topic) -> list[tuple[int, int]]:
        """Return partition and offset of all that a reader of the compacted archive sees of a topic."""
        files = self.archive / "compacted" / self.kafka.name(topic)
        query = f"SELECT partition, \"offset\" FROM read_parquet('{files}/**/*.parquet')"  # noqa: S608
        return sorted(duckdb.execute(query).fetchall())


@pytest.fixture
def clickstream(broker: RunningBroker, tmp_path: Path) -> Clickstream:
    kafka = Kafka(broker.bootstrap, f"clicks-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
    create_topics(kafka.bootstrap, kafka.prefix)
    return Clickstream(kafka, tmp_path)


def the_archive_has_each_record_once(clickstream: Clickstream, but: tuple[Topic, ...] = ()) -> None:
    done = run("spark_jobs", "compact", f"--archive={clickstream.archive}", env=clickstream.env)
    assert done.returncode == 0, done.stderr
    for topic in ALL:
        held = sorted((record.partition, record.offset) for record in clickstream.kafka.read_all(topic))
        if held and topic not in but:
            assert clickstream.archived(topic) == held, topic.name


def test_available_now_gives_each_row_once_and_ends(clickstream: Clickstream) -> None:
    sent = history(1, size=800)
    flush(sent)
    clickstream.send(sent)
    command = clickstream.command("--trigger=available-now", f"--archive={clickstream.archive}", jobs=JOBS)
    done = run(*command, env=clickstream.env, timeout_s=900)
    assert done.returncode == 0, done.stderr[-2000:]
    assert clickstream.different(sent) == {}
    # What the other jobs wrote meanwhile is archived as far as it was there when its query began.
    outputs = tuple(
        topic for topic in ALL if topic.record is None or topic not in {t for t, _, _ in sent.records}
    )
    the_archive_has_each_record_once(clickstream, but=outputs)
    # The formats of state are chosen at the first start, and stand in the checkpoint.
    begun = clickstream.root / "ad_attribution/micro-batch/v1" / clickstream.kafka.prefix / "offsets/0"
    settings = json.loads(begun.read_text(encoding="utf-8").splitlines()[1])["conf"]
    assert {name: settings.get(f"spark.sql.{name}") for name in STATE_FORMATS} == STATE_FORMATS
    version, commit = (begun.parent.parent / "commits/0").read_text(encoding="utf-8").splitlines()
    assert version == "v2"
    assert json.loads(commit)["stateUniqueIds"], "each version of state is named by who wrote it"
    rows = [record.value for record in clickstream.kafka.read_all(DISTINCT_EVENTS)]
    assert len(rows) == len(set(rows))
    assert clickstream.kafka.read_all(DEAD_LETTERS)

    # Its state is not gone on from with another shape.
    other = run(*command, "--join=full", "--gap=1 hour", env=clickstream.env)
    assert other.returncode == 1
    assert "join was left and is full now" in other.stderr


def test_micro_batches_are_right_after_kills_at_any_moment(clickstream: Clickstream) -> None:
    sent = history(2, size=800)
    part = len(sent.records) // 3
    archive = f"--archive={clickstream.archive}"
    live = ("--trigger=micro-batch", archive, "--records-per-batch=150", "--batch-seconds=1")

    def begun(job: str, least: int) -> bool:
        """Tell whether a batch of a job is being worked on."""
        begun_ones = clickstream.batches(job, "micro-batch", "offsets")
        return any(n >= least for n in begun_ones - clickstream.batches(job, "micro-batch", "commits"))

    rounds = [
        (JOBS[:-1], "ad_attribution", 1),
        (JOBS[:-1], "user_totals", 1),
        (("archive",), "archive-user-actions", 0),
    ]
    for number, (jobs, job, least) in enumerate(rounds):
        clickstream.send(sent, number * part, (number + 1) * part if number < 2 else None)
        with clickstream.running(*live, jobs=jobs) as process:
            clickstream.until(process, partial(begun, job, least))
            kill_tree(process)
        assert begun(job, least), "killed in the middle of a batch"
    before = len(sent.records)
    flush(sent)
    clickstream.send(sent, before)
    for jobs in (JOBS[:-1], ("archive",)):  # the archive last: it takes what the others wrote, too
        done = run(
            *clickstream.command("--trigger=available-now", archive, jobs=jobs),
            env=clickstream.env,
            timeout_s=600,
        )
        assert done.returncode == 0, done.stderr[-2000:]
    assert clickstream.different(sent) == {}
    the_archive_has_each_record_once(clickstream)
