"""How a run is set up, and how it ends."""

import logging
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import structs
from py4j.java_gateway import GatewayClient
from py4j.protocol import ERROR, ERROR_ON_RECEIVE, Py4JError, Py4JNetworkError

from events.cli import UserFacingError
from events.rules import Overheating, Rules
from events.settings import Settings
from events.status_file import status_folder, write_status
from events.times import now_ms
from events.topics import AD_CLICKS, AD_IMPRESSIONS, ALL, RACK_READINGS, USER_ACTIONS
from events.triggers import Trigger
from spark_jobs.clickstream import user_sessions
from spark_jobs.registry import JOBS
from spark_jobs.rules.framework.bucketed_readings import BUCKET_COUNT
from spark_jobs.runtime import runner
from spark_jobs.runtime.checkpoints import Identity, locked, open_checkpoint
from spark_jobs.runtime.job import ConfiguredJob, Job
from spark_jobs.runtime.options import JobOptions, RuleOptions
from spark_jobs.runtime.progress import BatchListener
from spark_jobs.runtime.runner import (
    RunOptions,
    _fingerprint,
    _new_recorder,
    _stop,
    count_slots,
    dependency_stages,
    without_py4j_logs,
)
from spark_jobs.runtime.supervisor import Supervisor
from spark_jobs.storage import deduplicate
from spark_jobs.storage.dead_letters import reporting_jobs
from spark_jobs.telemetry import rack_temperature, signal_statistics
from tests.builders import rack
from tests.driver_statuses import driver, query

UNLOCKED = RunOptions(checkpoint_root="s3a://bucket/checkpoints")
"""An object store has no locks, which a driver of this checkout might hold."""


def local_session() -> Mock:
    """Return a session in local mode, which needs no executor."""
    session = Mock()
    session.sparkContext.master = "local[4]"
    return session


def configured(
    name: str, trigger: Trigger | None = None, options: JobOptions | None = None
) -> ConfiguredJob:
    job = JOBS[name]
    return ConfiguredJob(job, options or job.options(), trigger or job.default_trigger)


@pytest.mark.parametrize("name", JOBS)
def test_every_job_runs_available_now_and_says_its_default_trigger_first(name: str) -> None:
    job = JOBS[name]
    assert Trigger.AVAILABLE_NOW in job.plans
    real_time = ("overheating", "rack_temperature", "weak_signal")
    expected = Trigger.REAL_TIME if name in real_time else Trigger.MICRO_BATCH
    assert job.default_trigger is expected
    assert job.name == name


def test_a_plan_runs_in_the_output_mode_that_is_chosen_or_in_its_first() -> None:
    plans = JOBS["rack_temperature"].plans
    append = rack_temperature.Options(output_mode="append")
    assert plans[Trigger.REAL_TIME].output_mode(rack_temperature.Options()) == "update"
    assert plans[Trigger.MICRO_BATCH].output_mode(append) == "append"
    assert plans[Trigger.AVAILABLE_NOW].output_mode(rack_temperature.Options()) == "update"
    overheating = JOBS["overheating"]
    assert overheating.plans[Trigger.REAL_TIME].output_mode(overheating.options()) == "update"


def test_an_output_mode_that_the_plan_lacks_is_refused() -> None:
    job, append = JOBS["rack_temperature"], rack_temperature.Options(output_mode="append")
    with pytest.raises(UserFacingError) as refused:
        job.check(Trigger.REAL_TIME, append)
    assert str(refused.value) == (
        "rack_temperature cannot write with --output-mode append as real-time: choose update, "
        "or --trigger micro-batch."
    )
    job.check(Trigger.MICRO_BATCH, append)
    job.check(Trigger.AVAILABLE_NOW, append)
    job.check(Trigger.REAL_TIME, rack_temperature.Options())


@pytest.mark.parametrize("name", [name for name in JOBS if not JOBS[name].needs_inventory])
def test_every_job_can_run_with_each_of_its_triggers_and_its_default_options(name: str) -> None:
    for trigger in JOBS[name].plans:
        JOBS[name].check(trigger, JOBS[name].options())


def of(job: Job, trigger: Trigger) -> ConfiguredJob:
    """Return a job with its default options."""
    return ConfiguredJob(job, job.options(), trigger)


def test_real_time_batches_are_long_and_micro_batches_follow_at_once() -> None:
    usual, job = RunOptions(), JOBS["overheating"]
    assert usual.batch_for(of(job, Trigger.REAL_TIME)) == timedelta(minutes=5)
    assert usual.batch_for(of(job, Trigger.MICRO_BATCH)) == timedelta(0)
    seven = RunOptions(batch=timedelta(seconds=7))
    assert seven.batch_for(of(job, Trigger.REAL_TIME)) == timedelta(seconds=7)
    assert usual.batch_for(of(JOBS["archive"], Trigger.MICRO_BATCH)) == timedelta(minutes=1)
    assert seven.batch_for(of(JOBS["archive"], Trigger.MICRO_BATCH)) == timedelta(minutes=1)
    assert seven.batch_for(of(JOBS["signal_statistics"], Trigger.MICRO_BATCH)) == timedelta(
        seconds=30
    )
    assert seven.batch_for(of(JOBS["signal_statistics"], Trigger.REAL_TIME)) == timedelta(seconds=7)


def test_micro_batches_of_rules_may_be_shorter_than_those_of_other_jobs() -> None:
    options = RunOptions(batch=timedelta(seconds=10), rules_batch=timedelta(seconds=2))
    only_rules = RunOptions(rules_batch=timedelta(seconds=2))
    lost_signal, sessions = JOBS["lost_signal"], JOBS["user_sessions"]
    assert options.batch_for(of(lost_signal, Trigger.MICRO_BATCH)) == timedelta(seconds=2)
    assert options.batch_for(of(sessions, Trigger.MICRO_BATCH)) == timedelta(seconds=10)
    assert only_rules.batch_for(of(sessions, Trigger.MICRO_BATCH)) == timedelta(0)
    overheating = of(JOBS["overheating"], Trigger.REAL_TIME)
    assert options.batch_for(overheating) == timedelta(seconds=10)


def test_batches_of_no_length_follow_at_once_and_in_real_time_are_the_shortest() -> None:
    none = timedelta(0)
    batches = RunOptions(batch=none)
    rules = RunOptions(batch=timedelta(seconds=10), rules_batch=none)
    silent_sensor, dead_letters = JOBS["silent_sensor"], JOBS["dead_letters"]
    assert batches.batch_for(of(silent_sensor, Trigger.MICRO_BATCH)) == none
    assert batches.batch_for(of(dead_letters, Trigger.MICRO_BATCH)) == none
    assert rules.batch_for(of(silent_sensor, Trigger.MICRO_BATCH)) == none
    assert rules.batch_for(of(dead_letters, Trigger.MICRO_BATCH)) == timedelta(seconds=10)
    assert batches.batch_for(of(JOBS["overheating"], Trigger.REAL_TIME)) == timedelta(seconds=5)


def test_dead_letters_are_not_urgent_and_their_batches_end_at_other_times() -> None:
    usual, job = RunOptions(), JOBS["dead_letters"]
    assert usual.batch_for(of(job, Trigger.REAL_TIME)) == timedelta(seconds=270)
    assert usual.batch_for(of(job, Trigger.MICRO_BATCH)) == timedelta(seconds=2)
    minute, shortest = (
        RunOptions(batch=timedelta(minutes=1)),
        RunOptions(batch=timedelta(seconds=5)),
    )
    assert minute.batch_for(of(job, Trigger.REAL_TIME)) == timedelta(seconds=54)
    assert minute.batch_for(of(job, Trigger.MICRO_BATCH)) == timedelta(minutes=1)
    assert shortest.batch_for(of(job, Trigger.REAL_TIME)) == timedelta(seconds=5)


def test_a_job_reads_its_topics_or_the_one_that_is_chosen() -> None:
    attribution, distinct = JOBS["ad_attribution"], JOBS["deduplicate"]
    assert attribution.topics_read(attribution.options()) == (AD_IMPRESSIONS, AD_CLICKS)
    assert distinct.topics_read(deduplicate.Options()) == (USER_ACTIONS,)
    assert distinct.topics_read(deduplicate.Options(topic="ad-clicks")) == (AD_CLICKS,)


def test_the_archive_reads_every_topic() -> None:
    assert [topic.name for topic in JOBS["archive"].sources] == [topic.name for topic in ALL]


def test_jobs_that_read_outputs_come_after_the_jobs_that_write_them() -> None:
    def stages(*names: str) -> list[list[str]]:
        jobs = [configured(name, Trigger.AVAILABLE_NOW) for name in names]
        return [[one.job.name for one in stage] for stage in dependency_stages(jobs)]

    last = ["site_outage", "dead_letters", "archive"]
    others = [name for name in JOBS if name not in last]
    assert stages(*JOBS) == [others, *([name] for name in last)]
    assert stages("user_totals", "dead_letters") == [["user_totals", "dead_letters"]]
    assert stages("archive", "site_outage", "user_totals", "lost_signal") == [
        ["user_totals", "lost_signal"],
        ["site_outage"],
        ["archive"],
    ]
    assert stages("site_outage", "archive") == [["site_outage"], ["archive"]]
    assert stages("site_outage") == [["site_outage"]]


def test_a_rules_file_changes_only_the_jobs_of_the_rules_in_it() -> None:
    rules = Rules((Overheating(count=2),))
    assert JOBS["weak_signal"].with_rules(rules) is JOBS["weak_signal"]
    assert JOBS["rack_temperature"].with_rules(rules) is JOBS["rack_temperature"]
    configured = JOBS["overheating"].with_rules(rules)
    assert configured.plans is JOBS["overheating"].plans
    versions = {configured.state_version, JOBS["overheating"].state_version}
    versions.add(JOBS["overheating"].with_rules(Rules((Overheating(count=3),))).state_version)
    assert len(versions) == 3, "other rules have other state"


@pytest.mark.parametrize("option", ["within_s", "clear_below_c", "rising", "critical_after_s"])
def test_one_rule_with_memory_takes_the_real_time_plan_away(option: str) -> None:
    with_memory: dict[str, Any] = {option: 8}
    plain = Overheating(racks=("a",), threshold_c=90.0, count=5, severity="info")
    job = JOBS["overheating"].with_rules(Rules((plain, Overheating(**with_memory))))
    assert set(job.plans) == {Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW}
    with pytest.raises(UserFacingError) as refused:
        job.check(Trigger.REAL_TIME, job.options())
    assert str(refused.value) == (
        f"overheating cannot run as real-time, because of rules[1].{option}: "
        "choose micro-batch, available-now."
    )


def test_how_often_a_job_writes_is_no_part_of_its_checkpoints_fingerprint() -> None:
    options = signal_statistics.Options(statistics_seconds=3, window="5 minutes")
    job = configured("signal_statistics", Trigger.MICRO_BATCH, options)
    assert _fingerprint(job, 2) == {
        "window": "5 minutes",
        "watermark": "10 minutes",
        "output_mode": "update",
        "state_partitions": "2",
    }


def test_a_checkpoint_with_another_number_of_buckets_is_refused(tmp_path: Path) -> None:
    job = JOBS["overheating"]
    for trigger in (Trigger.MICRO_BATCH, Trigger.AVAILABLE_NOW):
        assert _fingerprint(configured("overheating", trigger), 4) == {
            "buckets": str(BUCKET_COUNT),
            "state_partitions": "4",
        }
    plan = job.plans[Trigger.MICRO_BATCH]
    wider = replace(plan, fingerprint={"buckets": str(2 * BUCKET_COUNT)})
    before, now = (
        Identity(
            job.name,
            plan.name,
            "v2",
            "",
            _fingerprint(
                ConfiguredJob(
                    replace(job, plans={Trigger.MICRO_BATCH: one}),
                    job.options(),
                    Trigger.MICRO_BATCH,
                ),
                4,
            ),
        )
        for one in (plan, wider)
    )
    open_checkpoint(str(tmp_path), before)
    with pytest.raises(
        UserFacingError, match=rf"\(buckets was {BUCKET_COUNT} and is now {2 * BUCKET_COUNT}\)"
    ):
        open_checkpoint(str(tmp_path), now)


def test_state_is_spread_over_as_many_tasks_as_the_user_or_the_job_says() -> None:
    assert RunOptions().state_partitions_for(JOBS["overheating"]) == 4
    assert RunOptions().state_partitions_for(JOBS["silent_sensor"]) == 1
    assert RunOptions(state_partitions=3).state_partitions_for(JOBS["silent_sensor"]) == 3
    assert RunOptions(state_partitions=3).state_partitions_for(JOBS["dead_letters"]) == 0


def test_real_time_jobs_get_a_slot_for_each_partition_that_their_topics_really_have() -> None:
    usual = RunOptions()
    jobs = [configured(name) for name in ("overheating", "rack_temperature")]
    dead_letters = reporting_jobs(jobs)
    # Each job has a reader per partition and 4 owners of state; there are 8 spare slots.
    for partitions in (1, 16):
        counts = {"rack-readings": partitions}
        assert count_slots(jobs, counts, usual) == 2 * (partitions + 4) + 8
        assert count_slots([*jobs, *dead_letters], counts, usual) == 3 * partitions + 2 * 4 + 8
    assert count_slots([configured("user_totals")], {}, usual) == 4


@pytest.fixture(autouse=True)
def _no_broker_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {Settings().topic(topic): topic.partitions for topic in ALL}
    monkeypatch.setattr(runner, "partition_counts", lambda *_: counts)
    monkeypatch.setattr(runner, "TopicWatch", lambda *_: nullcontext())


class StartReachedError(Exception):
    """Ends a run where Spark would start."""


def test_slots_follow_the_partitions_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    slots = []

    def note(_settings: Settings, count: int, *_: Any) -> None:
        slots.append(count)
        raise StartReachedError

    settings = Settings()
    monkeypatch.setattr(runner, "new_session", note)
    weak = configured("weak_signal")
    jobs = [weak, *reporting_jobs([weak])]
    for partitions in (RACK_READINGS.partitions, 3 * RACK_READINGS.partitions):
        counts = {settings.topic(topic): topic.partitions for topic in ALL}
        counts[settings.topic(RACK_READINGS)] = partitions
        monkeypatch.setattr(runner, "partition_counts", lambda *_, counts=counts: counts)
        with pytest.raises(StartReachedError):
            runner.run(jobs, settings, UNLOCKED, lambda _: None)
    # Each partition has a reader of weak_signal and a reader of dead_letters.
    assert slots[1] - slots[0] == 2 * 2 * RACK_READINGS.partitions


def test_a_checkpoint_of_other_options_or_in_use_is_refused_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()
    monkeypatch.setattr(runner, "new_session", Mock(side_effect=StartReachedError))
    root = RunOptions(checkpoint_root=str(tmp_path))

    def start(job: ConfiguredJob, options: RunOptions = root) -> None:
        runner.run([job], settings, options, lambda _: None)

    usual = configured("user_sessions")
    for one in runner._queries_of(usual, settings, root):
        open_checkpoint(str(tmp_path), one.identity, one.folder)
    with pytest.raises(StartReachedError):
        start(usual)
    identities = [one.identity for one in runner._queries_of(usual, settings, root)]
    with locked(str(tmp_path), identities), pytest.raises(UserFacingError, match="end it first"):
        start(usual)
    with pytest.raises(UserFacingError, match="state_partitions was 4 and is now 8"):
        start(usual, replace(root, state_partitions=8))
    with pytest.raises(UserFacingError, match="gap was 30 minutes and is now 1 hour"):
        start(configured("user_sessions", None, user_sessions.Options(gap="1 hour")))


def starts(monkeypatch: pytest.MonkeyPatch, jobs: Sequence[ConfiguredJob]) -> list[list[str]]:
    """Return the jobs in the groups in which they start; the last is watched to the end."""
    running: list[str] = []
    running_together: list[list[str]] = []

    def prepare(_spark: Any, one: ConfiguredJob, *_: Any) -> list[Any]:
        running.append(one.job.name)
        return []

    def watch(*_: Any) -> None:
        running_together.append(list(running))
        running.clear()

    settings = Settings()
    monkeypatch.setattr(runner, "new_session", lambda *_: local_session())
    monkeypatch.setattr(runner, "prepare", prepare)
    monkeypatch.setattr(BatchListener, "add_to", Mock())
    monkeypatch.setattr(Supervisor, "watch", watch)
    assert runner.run(jobs, settings, UNLOCKED, lambda _: None) == 0
    return running_together


@pytest.mark.parametrize("trigger", [Trigger.AVAILABLE_NOW, Trigger.MICRO_BATCH], ids=str)
def test_readers_of_outputs_start_late_in_available_now_and_rules_first_in_micro_batches(
    monkeypatch: pytest.MonkeyPatch, trigger: Trigger
) -> None:
    names = ("archive", "user_sessions", "site_outage", "lost_signal")
    own = {"site_outage": RuleOptions(inventory=(rack(),))}
    jobs = [configured(name, trigger, own.get(name)) for name in names]
    in_stages = [["user_sessions", "lost_signal"], ["site_outage"], ["archive"]]
    rules_first = [["site_outage", "lost_signal"], ["user_sessions"], ["archive"]]
    expected = in_stages if trigger is Trigger.AVAILABLE_NOW else rules_first
    assert starts(monkeypatch, jobs) == expected


def test_under_available_now_dead_letters_start_when_the_others_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [configured(name, Trigger.AVAILABLE_NOW) for name in ("archive", "user_totals")]
    groups = starts(monkeypatch, [*reporting_jobs(jobs), *jobs])
    assert groups == [["user_totals"], ["dead_letters"], ["archive"]]


def test_a_deferred_job_waits_for_a_batch_of_each_query_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    supervisor, received = Mock(), list[int]()
    deferred = [configured("archive", Trigger.MICRO_BATCH)]
    is_over = runner._until_all_work(supervisor, deferred, received)
    covering = [configured("dead_letters", Trigger.AVAILABLE_NOW)]
    is_covered = runner._until_all_work(supervisor, covering, received)
    supervisor.batches_work.return_value = False
    assert not is_over()
    supervisor.batches_work.return_value = True
    assert is_over()
    assert is_covered()
    supervisor.batches_work.return_value = False
    now_s = 60.5
    assert is_over(), "the topic of a query may stay empty"
    assert not is_covered(), "its offsets would not cover the others'"
    now_s = 1.0
    received.append(signal.SIGTERM)
    assert is_over()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_after_a_signal_no_further_job_starts(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    started: list[str] = []

    def fail(*_: Any) -> None:
        raise Py4JError("Gateway must be connected to send cancel cmd.")

    def new_session(*_: Any) -> Mock:
        signal.signal(signal.SIGINT, fail)  # as PySpark's handler does within a call to the JVM
        return local_session()

    def prepare(_spark: Any, one: ConfiguredJob, *_: Any) -> list[Any]:
        started.append(one.job.name)
        signal.raise_signal(number)
        return []

    settings = Settings()
    monkeypatch.setattr(runner, "new_session", new_session)
    monkeypatch.setattr(runner, "prepare", prepare)
    monkeypatch.setattr(BatchListener, "add_to", Mock())
    jobs = [configured("weak_signal"), configured("overheating")]
    assert runner.run(jobs, settings, UNLOCKED, lambda _: None) == status
    assert started == ["weak_signal"]


def test_a_progress_file_that_cannot_be_written_is_named_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings()
    monkeypatch.setattr(runner, "new_session", Mock(side_effect=StartReachedError))
    with pytest.raises(
        UserFacingError, match=r"progress file .* cannot be written \(Is a directory"
    ):
        runner.run(
            [configured("weak_signal")],
            settings,
            replace(UNLOCKED, progress=tmp_path),
            lambda _: None,
        )


class Session:
    """A session whose JVM answers or has ended."""

    def __init__(self, version: str) -> None:
        self._version = version
        self.sparkContext = local_session().sparkContext
        self.streams = Mock()
        self.stop = Mock()

    @property
    def version(self) -> str:
        """Spark's version, which only the JVM knows."""
        if not self._version:
            raise ConnectionRefusedError
        return self._version


@pytest.mark.parametrize(
    "failure", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError()]
)
def test_the_end_of_the_jvm_is_one_sentence_and_its_other_failures_are_bugs(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    def run(session: Session, *signals: signal.Signals) -> int:
        def watch(*_: Any) -> None:
            for number in signals:
                signal.raise_signal(number)
            raise failure

        monkeypatch.setattr(runner, "new_session", lambda *_: session)
        monkeypatch.setattr(BatchListener, "add_to", Mock())
        monkeypatch.setattr(Supervisor, "watch", watch)
        jobs = [configured("weak_signal")]
        return runner.run(jobs, settings, UNLOCKED, lambda _: None)

    settings = Settings()
    monkeypatch.setattr(runner, "prepare", lambda *_: [])
    with pytest.raises(UserFacingError, match=r"^Spark's JVM has ended, .* memory ran out: give"):
        run(Session(""))
    with pytest.raises(type(failure)):
        run(Session("4.3.0"))
    # Ctrl-C reaches the JVM, too.
    assert run(Session(""), signal.SIGINT) == 130
    assert run(Session(""), signal.SIGTERM) == 0


def cluster_session(executors: Sequence[int], **conf: str) -> Mock:
    """Return a session of a standalone cluster that has so many executors at each look."""
    session = Mock()
    session.sparkContext.master = "spark://master:7077"
    session.conf.get = conf.get
    counts = session.sparkContext._jsc.sc.return_value.getExecutorIds.return_value.size
    counts.side_effect = [*executors]
    return session


def test_a_standalone_cluster_must_give_an_executor_within_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += 100 * seconds

    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    monkeypatch.setattr(time, "sleep", sleep)
    runner._require_executor(local_session(), [])
    runner._require_executor(cluster_session([0, 0, 0, 1]), [])
    assert now_s == 60
    runner._require_executor(cluster_session([]), [signal.SIGTERM])
    runner._require_executor(cluster_session([], **{runner.DYNAMIC_ALLOCATION: "true"}), [])
    assert now_s == 60, "tasks ask for the executors"
    with pytest.raises(UserFacingError, match=r"^spark://master:7077 has given .* no executor: "):
        runner._require_executor(cluster_session([0, 0, 0, 0, 0]), [])
    assert now_s == 140


REAL_TIME, MICRO_BATCH = "real-time", "micro-batch"


@pytest.mark.parametrize(
    ("triggers", "changes", "is_superseded"),
    [
        ({"rack_temperature": MICRO_BATCH, "dead_letters": REAL_TIME}, {}, True),
        ({"rack_temperature": MICRO_BATCH}, {}, True),
        ({"rack_temperature": MICRO_BATCH}, {"queries": []}, True),  # it failed as it started
        (dict.fromkeys(("overheating", "weak_signal", "rack_temperature"), REAL_TIME), {}, False),
        ({"rack_temperature": REAL_TIME}, {}, False),
        ({"dead_letters": MICRO_BATCH}, {}, False),
        ({"rack_temperature": MICRO_BATCH}, {"checkpoint_root": "elsewhere"}, False),
        ({"rack_temperature": MICRO_BATCH}, {"topic_prefix": "other-"}, False),
    ],
)
def test_a_failure_is_shown_until_a_driver_with_the_same_task_starts(
    triggers: dict[str, str], changes: dict[str, Any], is_superseded: bool, tmp_path: Path
) -> None:
    def jobs_in_status(jobs: dict[str, str]) -> list[str]:
        recorder = _new_recorder(
            [configured(name, Trigger(trigger)) for name, trigger in jobs.items()],
            Settings(rackstream_home=tmp_path, _env_file=None),
            RunOptions(checkpoint_root="checkpoints"),
        )
        return recorder.snapshot().jobs

    queries = [query(name, trigger=trigger) for name, trigger in triggers.items()]
    failed = structs.replace(
        driver(*queries, written_ms=now_ms()),
        jobs=jobs_in_status(triggers),
        error="no luck.",
        **changes,
    )
    file = status_folder(tmp_path) / "spark_jobs-elsewhere-1.json"
    write_status(file, failed)
    jobs_in_status({"rack_temperature": MICRO_BATCH})
    assert file.exists() is not is_superseded


def test_stopping_goes_on_when_the_jvm_is_gone() -> None:
    gone = Mock(stop=Mock(side_effect=Py4JNetworkError("the JVM is gone")))
    _stop(gone, [gone])
    assert gone.stop.call_count == 2


def call_a_jvm_that_is_killed_before_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Mock(send_command=Mock(side_effect=Py4JNetworkError("lost", when=ERROR_ON_RECEIVE)))
    client = GatewayClient()
    monkeypatch.setattr(client, "_get_connection", lambda: lost)
    assert client.send_command("a command") == ERROR


def test_py4j_logs_nothing_during_a_run(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_a_jvm_that_is_killed_before_it_answers(monkeypatch)
    assert caplog.records, "py4j logs a lost connection"
    caplog.clear()
    with without_py4j_logs():
        call_a_jvm_that_is_killed_before_it_answers(monkeypatch)
        logging.getLogger("py4j.java_gateway").error("An error occurred while calling the JVM")
        logging.getLogger("rackstream").error("something of ours")
        logging.error("and without a logger")
    assert [record.message for record in caplog.records] == [
        "something of ours",
        "and without a logger",
    ]
    logging.getLogger("py4j.java_gateway").error("after the end")
    assert caplog.records[-1].message == "after the end"
