"""Which topics `run` reports the dead letters of, with which trigger, and in which process."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.topics import (
    AD_CLICKS,
    AD_IMPRESSIONS,
    ALERTS,
    EVENT_TOPICS,
    RACK_READINGS,
    USER_ACTIONS,
)
from events.triggers import Trigger
from spark_jobs.dead_letter_reporting import lock_file, with_dead_letters
from spark_jobs.registry import JOBS
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.storage.dead_letters import reporting_jobs
from tests.support import ROOT


def configured(*names: str, trigger: Trigger | None = None) -> list[ConfiguredJob]:
    jobs = [JOBS[name] for name in names]
    return [ConfiguredJob(job, job.options(), trigger or job.default_trigger) for job in jobs]


def reported(jobs: list[ConfiguredJob]) -> dict[str, str]:
    """Return the trigger with which each topic is reported."""
    return {
        topic.name: str(one.trigger) for one in reporting_jobs(jobs) for topic in one.topics_read
    }


def test_the_four_event_topics_are_reported_and_alerts_where_a_job_reads_them() -> None:
    names = {topic.name for topic in EVENT_TOPICS}
    assert names == {"rack-readings", "ad-impressions", "ad-clicks", "user-actions"}
    everything = [name for name in JOBS if name != "dead_letters"]
    assert set(reported(configured(*everything))) == {*names, "alerts"}
    without = [name for name in everything if name != "site_outage"]
    assert set(reported(configured(*without))) == names


def test_topics_that_only_the_archive_reads_are_not_reported() -> None:
    assert reported(configured("archive")) == {}
    assert set(reported(configured("archive", "user_totals"))) == {"user-actions"}


def test_a_topic_has_the_most_urgent_trigger_of_its_jobs() -> None:
    jobs = configured("lost_signal", "overheating", "user_totals", "site_outage")
    assert reported(jobs) == {
        "rack-readings": "real-time",
        "user-actions": "micro-batch",
        "alerts": "micro-batch",
    }
    now = configured("overheating", "ad_attribution", trigger=Trigger.AVAILABLE_NOW)
    topics = (RACK_READINGS, AD_IMPRESSIONS, AD_CLICKS)
    assert reported(now) == {topic.name: "available-now" for topic in topics}


def test_the_job_alone_reports_every_topic() -> None:
    assert set(reported(configured("dead_letters"))) == {*(t.name for t in EVENT_TOPICS), "alerts"}


def names(jobs: list[ConfiguredJob]) -> list[str]:
    return [one.job.name for one in jobs]


def topics(jobs: list[ConfiguredJob]) -> list[str]:
    return [
        topic.name for one in jobs if one.job.name == "dead_letters" for topic in one.topics_read
    ]


def test_a_second_process_says_who_reports_a_topic_and_runs_without(tmp_path: Path) -> None:
    root, said = str(tmp_path), list[str]()
    live, later = configured("overheating"), configured("user_totals", "weak_signal")
    with with_dead_letters(live, root, "p-", said.append) as first:
        assert (names(first), said) == (["overheating", "dead_letters"], [])
        with with_dead_letters(later, root, "p-", said.append) as second:
            assert names(second) == ["user_totals", "weak_signal", "dead_letters"]
            assert topics(second) == ["user-actions"]
        (sentence,) = said
        assert sentence.startswith(f"process {os.getpid()} on ")
        assert sentence.endswith(
            "runs overheating) reports the dead letters of rack-readings, so this one does not"
        )
        with with_dead_letters(later, root, "q-", said.append) as elsewhere:
            assert topics(elsewhere) == ["rack-readings", "user-actions"], "another prefix"
    with with_dead_letters(later, root, "p-", said.append) as after:
        assert topics(after) == ["rack-readings", "user-actions"], "the lock was released"
    assert len(said) == 1


def test_an_object_store_has_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    root, said = "s3a://bucket/rackstream", list[str]()
    with (
        with_dead_letters(configured("overheating"), root, "", said.append) as first,
        with_dead_letters(configured("overheating"), root, "", said.append) as second,
    ):
        assert topics(first) == topics(second) == ["rack-readings"]
    assert (said, list(tmp_path.iterdir())) == ([], [])


def test_a_process_that_has_nothing_left_to_report_says_so(tmp_path: Path) -> None:
    only_dead_letters, said = configured("dead_letters"), list[str]()
    with (
        with_dead_letters(only_dead_letters, str(tmp_path), "", said.append),
        pytest.raises(UserFacingError, match="other processes report the dead letters of every"),
        with_dead_letters(only_dead_letters, str(tmp_path), "", said.append),
    ):
        pass
    assert len(said) == 5


def test_a_checkpoint_root_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserFacingError, match=r"the lock file .* cannot be written \(Not a dir"),
        with_dead_letters(configured("overheating"), str(tmp_path / "file"), "", print),
    ):
        pass


def test_a_file_system_without_locks_is_one_sentence_that_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with (
        pytest.raises(UserFacingError, match=r"\(No locks available\).* use --no-dead-letters\.$"),
        with_dead_letters(configured("overheating"), str(tmp_path), "", print),
    ):
        pass


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    file = lock_file(str(tmp_path), "", USER_ACTIONS)
    file.parent.mkdir(parents=True)
    code = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('locked', flush=True); time.sleep(600)"
    )
    said = list[str]()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(file)], cwd=ROOT, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout and other.stdout.readline() == b"locked\n"
        with with_dead_letters(configured("user_totals"), str(tmp_path), "", said.append) as jobs:
            assert names(jobs) == ["user_totals"]
        other.kill()
    with with_dead_letters(configured("user_totals"), str(tmp_path), "", said.append) as jobs:
        assert names(jobs) == ["user_totals", "dead_letters"]
    assert said == [
        "another process reports the dead letters of user-actions, so this one does not"
    ]


def test_a_topics_lock_lies_below_the_checkpoint_root(tmp_path: Path) -> None:
    file = lock_file(f"{tmp_path}/", "demo-", ALERTS)
    assert file == tmp_path / "dead_letters-alerts" / "demo-.lock"
