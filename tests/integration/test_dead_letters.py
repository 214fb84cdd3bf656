"""Dead letters on a real broker: each topic is reported once, whichever jobs and processes run."""

import json
from collections import Counter
from typing import Any

import pytest

from events.topics import ALERTS, DEAD_LETTERS, RACK_READINGS, USER_ACTIONS, Topic
from tests.integration.test_jobs import (
    NONE_LATE,
    RACK_JOBS,
    SHUFFLE_WAIT,
    Pipeline,
    kill_tree,
    left_out,
    pipeline,
)
from tests.spark.mixed_topic import mixed_records, send
from tests.spark.rack_histories import HOT
from tests.support import run

__all__ = ["pipeline"]
pytestmark = pytest.mark.full

JOBS = ("overheating",)
NOW = "--trigger=available-now"


def reported(pipeline: Pipeline, topic: Topic = RACK_READINGS) -> Counter[tuple[int, int]]:
    """Return how often each record of a topic was reported."""
    rows: list[Any] = [json.loads(r.value or b"") for r in pipeline.kafka.read_all(DEAD_LETTERS)]
    places = [(r["partition"], r["offset"]) for r in rows if r["source_topic"] == topic.name]
    return Counter(places)


def commits(pipeline: Pipeline, topic: Topic = RACK_READINGS) -> set[int]:
    return pipeline.batches(f"dead_letters-{topic.name}", "records", "commits")


def test_each_record_is_reported_through_a_kill_by_one_process_at_a_time(
    pipeline: Pipeline,
) -> None:
    pipeline.know([f"rack-13-{number:03d}" for number in range(10)], HOT)
    contents = mixed_records(13, racks=20, readings=40)
    part = len(contents) // 3
    send(pipeline.kafka, contents[:part])

    def apart() -> bool:
        """Tell whether one of the two queries has ended two batches more than the other."""
        job = pipeline.batches("overheating", "buckets", "commits")
        return abs(len(job) - len(commits(pipeline))) > 1

    # A kill between the commits of a job and of `dead_letters` loses nothing of either.
    small_batches = ("--trigger=micro-batch", "--read-tasks=1", "--records-per-batch=50")
    with pipeline.running(*small_batches, jobs=JOBS) as process:
        pipeline.kill_while(process, apart)
    # A batch that was planned before the kill runs again: it doesn't read what comes later.
    planned = pipeline.batches(f"dead_letters-{RACK_READINGS.name}", "records", "offsets")

    # Another trigger takes over.
    send(pipeline.kafka, contents[part : 2 * part])
    progress = pipeline.folder / "progress.jsonl"
    options = (NOW, f"--progress={progress}")
    with pipeline.running("--batch-seconds=5", SHUFFLE_WAIT, jobs=JOBS) as process:
        pipeline.until(process, lambda: not pipeline.wrong(JOBS))
        # The batch that is under way has read all.
        latest = max(planned | commits(pipeline), default=-1)
        pipeline.until(process, lambda: max(commits(pipeline), default=-1) > latest)
        before = reported(pipeline)
        # A second process leaves the topic to the first. It reports its other topic from the start.
        pipeline.kafka.send(USER_ACTIONS, [("user", b"{")])
        other = ("weak_signal", "user_totals")
        beside = run(*pipeline.command(*options, jobs=other), env=pipeline.env)
        assert beside.returncode == 0, beside.stderr[-2000:]
        assert f"process {process.pid} on " in beside.stderr
        assert "reports the dead letters of rack-readings, so this one does not" in beside.stderr
        assert "dead_letters (available-now): user-actions -> dead-letters" in beside.stderr
        assert reported(pipeline) == before, "rack-readings are reported once"
        assert len(reported(pipeline, USER_ACTIONS)) == 1
        kill_tree(process)

    # Other jobs take over: late, not lost, and not from the start. They count what they leave out.
    send(pipeline.kafka, contents[2 * part :])
    now = pipeline.command(*options, NONE_LATE, jobs=(*RACK_JOBS, "weak_signal"))
    done = run(*now, env=pipeline.env)
    assert (done.returncode, pipeline.wrong()) == (0, {}), done.stderr[-2000:]
    after = reported(pipeline)
    assert len(after) > len(before)
    assert {place: after[place] for place in before} == before, "nothing is reported from the start"
    unreadable, future = (pipeline.reasons()[reason] for reason in ("unreadable", "future"))
    assert unreadable > 0 < future
    assert left_out(progress, "weak_signal") == unreadable
    assert left_out(progress, "rack_temperature") == unreadable + future, "by event time"
    alerts = pipeline.kafka.read_all(ALERTS)
    assert len({record.value for record in alerts}) > 20
    assert all(record.key and record.key.startswith(b"rack-13-") for record in alerts)

    # Other options are refused: they would misread its state.
    refused = run(*now, "--window=20 minutes", "--state-partitions=8", env=pipeline.env)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith("spark_jobs: the checkpoint ")
    assert "state_partitions was 2 and is now 8" in line


def test_under_available_now_dead_letters_reach_as_far_as_the_other_jobs(
    pipeline: Pipeline,
) -> None:
    """Malformed records come all the time, so each later start ends at later offsets."""
    pipeline.know(["rack-13-000"], HOT)
    send(pipeline.kafka, mixed_records(13, racks=10, readings=20))
    with pipeline.running(NOW, "--records-per-batch=50", jobs=JOBS) as process:
        for _ in range(1000):
            send(pipeline.kafka, [(b"rack-13-000", b"{"), (None, b"}")])
            if process.poll() is not None:
                break
        assert process.wait(timeout=120) == 0, pipeline.output.read_text(encoding="utf-8")[-2000:]
    job = pipeline.end_offsets("overheating", "buckets")
    dead_letters = pipeline.end_offsets(f"dead_letters-{RACK_READINGS.name}", "records")
    assert sum(dead_letters.values()) > sum(job.values()) > 200
    assert all(dead_letters[partition] >= job[partition] for partition in job)
    # What the job has read and left out is reported in the same run.
    malformed = {
        (record.partition, record.offset)
        for record in pipeline.kafka.read_all(RACK_READINGS)
        if record.value in (b"{", b"}") and record.offset < job[record.partition]
    }
    assert malformed <= reported(pipeline).keys()
