"""Dead letters on a real broker: each topic is reported once, whichever jobs and processes run."""

import json
import signal
from collections import Counter
from typing import Any

import pytest

from events.topics import ALERTS, DEAD_LETTERS, RACK_READINGS, USER_ACTIONS, Topic
from tests.integration.test_jobs import (
    NONE_LATE,
    RACK_JOBS,
    Pipeline,
    kill_tree,
    left_out,
    pipeline,
)
from tests.spark.mixed_topic import mixed_records, send
from tests.spark.rack_histories import HOT
from tests.support import kill, run

__all__ = ["pipeline"]
pytestmark = pytest.mark.full

JOBS = ("overheating",)
NOW = "--trigger=available-now"


def reported(pipeline: Pipeline, topic: Topic = RACK_READINGS) -> Counter[tuple[int, int]]:
    """Return how often each record of a topic was reported."""
    rows: list[Any] = [json.loads(r.value or b"") for r in pipeline.kafka.read_all(DEAD_LETTERS)]
    places = [(r["partition"], r["offset"]) for r in rows if r["source_topic"] == topic.name]
    return Counter(places)


def reasons(pipeline: Pipeline) -> Counter[str]:
    """Return how many records were reported for each reason."""
    rows: list[Any] = [json.loads(r.value or b"") for r in pipeline.kafka.read_all(DEAD_LETTERS)]
    return Counter({(r["partition"], r["offset"]): r["reason"] for r in rows}.values())


def commits(pipeline: Pipeline, topic: Topic = RACK_READINGS) -> set[int]:
    return pipeline.batches(f"dead_letters-{topic.name}", "records", "commits")


def test_one_process_reports_each_topic_once_whatever_runs_beside_and_after_it(
    pipeline: Pipeline,
) -> None:
    contents = mixed_records(11, racks=8, readings=40)
    part = len(contents) // 3
    send(pipeline.kafka, contents[: 2 * part])
    with pipeline.running("--batch-seconds=5", jobs=JOBS) as process:
        pipeline.until(process, lambda: not pipeline.wrong(JOBS))
        pipeline.until(process, lambda: 2 in commits(pipeline))
        before = reported(pipeline)
        # A second process leaves the topic to the first. It reports its other topic from the start.
        pipeline.kafka.send(USER_ACTIONS, [("user", b"{")])
        other = ("weak_signal", "user_totals")
        beside = run(*pipeline.command(NOW, jobs=other), env=pipeline.env)
        assert beside.returncode == 0, beside.stderr[-2000:]
        assert f"process {process.pid} on " in beside.stderr
        assert "reports the dead letters of rack-readings, so this one does not" in beside.stderr
        assert "dead_letters (available-now): user-actions -> dead-letters" in beside.stderr
        assert reported(pipeline) == before, "rack-readings are reported once"
        assert len(reported(pipeline, USER_ACTIONS)) == 1
        kill_tree(process)

    # Another job with another trigger takes over: late, not lost, and not from the start.
    send(pipeline.kafka, contents[2 * part :])
    with pipeline.running("--trigger=micro-batch", jobs=("weak_signal",)) as process:
        pipeline.until(process, lambda: not pipeline.wrong(()))
        assert kill(process, signal.SIGTERM) == 0
    after = reported(pipeline)
    assert len(after) > len(before)
    assert {place: after[place] for place in before} == before, "nothing is reported from the start"


def test_nothing_is_lost_by_kills_between_the_commits_of_the_queries(pipeline: Pipeline) -> None:
    pipeline.know([f"rack-13-{number:03d}" for number in range(10)], HOT)
    send(pipeline.kafka, mixed_records(13, racks=20, readings=40))
    options = ("--trigger=micro-batch", "--records-per-batch=100")

    def ended() -> list[int]:
        """Return how many batches of the job and of `dead_letters` have ended."""
        return [len(pipeline.batches("overheating", "buckets", "commits")), len(commits(pipeline))]

    def apart() -> bool:
        job, dead_letters = ended()
        return abs(job - dead_letters) > 1 and max(job, dead_letters) > before

    for _ in range(2):
        before = max(ended())
        with pipeline.running(*options, jobs=JOBS) as process:
            pipeline.kill_while(process, apart)
    # Two more jobs begin from the start, and count what they leave out.
    progress = pipeline.folder / "progress.jsonl"
    now = pipeline.command(
        NOW, NONE_LATE, f"--progress={progress}", jobs=(*RACK_JOBS, "weak_signal")
    )
    done = run(*now, env=pipeline.env)
    assert (done.returncode, pipeline.wrong()) == (0, {}), done.stderr[-2000:]
    unreadable, future = (reasons(pipeline)[reason] for reason in ("unreadable", "future"))
    assert unreadable > 0 < future
    assert left_out(progress, "weak_signal") == unreadable
    assert left_out(progress, "rack_temperature") == unreadable + future, "by event time"
    alerts = pipeline.kafka.read_all(ALERTS)
    assert len({record.value for record in alerts}) > 20
    assert all(record.key and record.key.startswith(b"rack-13-") for record in alerts)

    # Other options are refused: they would misread its state.
    other = run(*now, "--window=20 minutes", "--state-partitions=8", env=pipeline.env)
    assert other.returncode == 1
    assert other.stderr.splitlines()[-1].startswith("spark_jobs: the checkpoint ")
    assert "state_partitions was 2 and is now 8" in other.stderr
    assert "Traceback" not in other.stderr
