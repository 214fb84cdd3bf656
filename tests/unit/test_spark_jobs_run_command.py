"""The command line of `run`: which jobs it runs, and which options they accept."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
import yaml

from demo.run import Demo, Options, Signals
from events.catalog import RULE_JOBS
from events.cli import UserFacingError
from events.settings import Settings
from events.triggers import Trigger
from loadtest import commands
from loadtest.plan import load_plans, points
from loadtest.short import shortened
from producer.scenario import Scenario
from spark_jobs.__main__ import app
from spark_jobs.registry import JOBS
from spark_jobs.runtime import runner
from spark_jobs.runtime.job import ConfiguredJob
from spark_jobs.runtime.options import options_of
from spark_jobs.runtime.runner import RunOptions
from tests.support import ROOT

REAL_TIME = {"rack_temperature", "overheating", "weak_signal"}
RACK = (
    '{"rack_id": "rack-0001", "site_id": "site-a", "device_type": "gpu", "threshold_c": 90.0, '
    '"readings_per_second": 1.0}\n'
)


@pytest.fixture(autouse=True)
def in_own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Keep the locks of the default checkpoint root out of the project's folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[ConfiguredJob], Any]]:
    """Return the jobs and options of each run that starts; nothing runs."""
    runs: list[tuple[list[ConfiguredJob], Any]] = []

    def note(jobs: list[ConfiguredJob], _settings: Any, options: Any, _log: Any) -> int:
        runs.append((jobs, options))
        return 0

    monkeypatch.setattr(runner, "run", note)
    return runs


def call(*arguments: str) -> None:
    """Call `run` on the command line."""
    command: Any = typer.main.get_command(app)
    with pytest.raises(SystemExit) as ended:
        command(["run", *arguments], prog_name="python -m spark_jobs")
    assert ended.value.code == 0


def refusal(*arguments: str) -> str:
    """Return the sentence with which a command line is refused."""
    with pytest.raises(UserFacingError) as refused:
        call(*arguments)
    return str(refused.value)


def names(jobs: list[ConfiguredJob]) -> list[str]:
    return [one.job.name for one in jobs]


def rules_file(folder: Any, text: str) -> list[str]:
    """Write an inventory and a rules file; return the options that name them."""
    (folder / "racks.jsonl").write_text(RACK, encoding="utf-8")
    (folder / "rules.yaml").write_text(text, encoding="utf-8")
    return [f"--inventory={folder}/racks.jsonl", f"--rules={folder}/rules.yaml"]


Started = list[tuple[list[ConfiguredJob], Any]]


def test_named_jobs_get_their_own_options_and_the_defaults_of_the_others(started: Started) -> None:
    call("user_sessions", "--gap", "1 hour", "--device-gap", "phone=5 minutes", "overheating")
    ((sessions, overheating, *_),) = [jobs for jobs, _ in started]
    assert (sessions.job.name, overheating.job.name) == ("user_sessions", "overheating")
    options: Any = sessions.options
    assert (options.gap, options.device_gap) == ("1 hour", (("phone", "5 minutes"),))
    assert options.watermark == "10 minutes"


def test_defaults_are_those_of_the_contract_and_of_the_docs(started: Started) -> None:
    call("ad_attribution")
    (([attribution, *_], options),) = started
    join: Any = attribution.options
    assert (
        join.join,
        join.impressions_watermark,
        join.clicks_watermark,
        join.watermark_policy,
    ) == (
        "left",
        "2 hours",
        "3 hours",
        "min",
    )
    assert (options.restarts, options.read.starting_offsets) == (5, "earliest")


def test_an_option_that_two_named_jobs_have_applies_to_both(started: Started) -> None:
    call("lost_signal", "rack_temperature", "overheating", "--watermark=1 minute")
    ((jobs, _),) = started
    watermarks = {one.job.name: getattr(one.options, "watermark", None) for one in jobs}
    assert watermarks == {
        "lost_signal": "1 minute",
        "rack_temperature": "1 minute",
        "overheating": None,
        "dead_letters": None,
    }


def test_an_option_of_a_job_that_is_not_named_is_refused() -> None:
    assert refusal("overheating", "--gap=1 hour") == (
        "--gap belongs to user_sessions, which is not among the jobs named."
    )
    assert refusal("overheating", "--first-only") == (
        "--first-only belongs to ad_attribution, which is not among the jobs named."
    )
    assert refusal("overheating", "--window=1 hour") == (
        "--window belongs to rack_temperature, action_counts and signal_statistics, none of which "
        "is among the jobs named."
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["rack_temperature", "--output-mode=complete"],
            "--output-mode 'complete' is not known to rack_temperature: choose update or append.",
        ),
        (["deduplicate", "--topic=alerts"], "--topic 'alerts' is not known to deduplicate: choose"),
        (["user_sessions", "--device-gap=phone"], "--device-gap 'phone' is not of the form key="),
        (["user_sessions", "--gap=0 seconds"], "--gap 0 seconds: write a gap as 10 minutes or 1"),
        (["user_sessions", "--gap=-5 minutes"], "--gap -5 minutes: write a gap as 10 minutes or"),
        (["user_sessions", "--gap=90s"], "--gap 90s: write a gap as 10 minutes or 1 hour 30"),
        (["user_sessions", "--gap=1001 days"], "--gap 1001 days: write a gap as 10 minutes or 1"),
        (
            ["user_sessions", "--device-gap=tv=1 hour 30 minutes", "--device-gap=phone=soon"],
            "--device-gap phone=soon: write a gap as 10 minutes or 1 hour 30 minutes, above 0",
        ),
        (["ad_attribution", "--first-only", "--join=full"], "--first-only works with --join inner"),
        (["overheating", "--batch-seconds=inf"], "--batch-seconds inf is not a number of seconds"),
        (
            ["archive", "--archive-seconds=1e15"],
            "--archive-seconds 1e15 is not a number of seconds",
        ),
        (["user_totals", "--state-retention=forever"], "--state-retention 'forever' is not known"),
        (
            ["overheating", "--checkpoint-root=file:///data"],
            "--checkpoint-root file:///data: name a local folder by its path, without file:.",
        ),
        (
            ["overheating", "--checkpoint-root="],
            "--checkpoint-root is empty: give a value, or leave it out for the default.",
        ),
        (["archive", "--archive="], "--archive is empty: give a value, or leave it out for the"),
        (["user_totals", "--watermark="], "--watermark is empty: give a value, or leave it out"),
        (
            ["deduplicate", "--state-retention=unbounded", "--watermark=10 minutes"],
            "--watermark has no effect on deduplicate with --state-retention unbounded: leave it",
        ),
        (["heat_death"], "there is no job 'heat_death': choose from rack_temperature, overheating"),
        (["overheating", "--rules=rules.yaml"], "--rules is checked against the inventory: add"),
        ([], "name the jobs to run (`list` shows them), or add --all-real-time or --all-micro-"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(arguments: list[str], sentence: str) -> None:
    assert refusal(*arguments).startswith(sentence)


RULES = "overheating, lost_signal, silent_sensor, weak_signal and site_outage"
NOT_NAMED = "none of which is among the jobs named."


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("user_totals --inventory=none.jsonl", f"--inventory belongs to {RULES}, {NOT_NAMED}"),
        ("archive user_totals --rules=none.yaml", f"--rules belongs to {RULES}, {NOT_NAMED}"),
        ("user_totals --rules-batch-seconds=2", f"--rules-batch-seconds belongs to {RULES}, "),
        (
            "overheating weak_signal user_totals --rules-batch-seconds=2",
            "--rules-batch-seconds has no effect on overheating and weak_signal as real-time: "
            "leave it out, or choose --trigger micro-batch.",
        ),
        (
            "weak_signal --rules-batch-seconds=2 --inventory=none.jsonl --rules=none.yaml",
            "--rules-batch-seconds has no effect on weak_signal as real-time: ",
        ),
        (
            "lost_signal --rules-batch-seconds=2 --trigger=available-now",
            "--rules-batch-seconds has no effect on lost_signal as available-now: ",
        ),
        ("archive --batch-seconds=5", "archive has --archive-seconds instead of --batch-seconds."),
        (
            "archive signal_statistics --batch-seconds=5",
            "archive has --archive-seconds and signal_statistics has --statistics-seconds instead "
            "of --batch-seconds.",
        ),
        (
            "archive overheating --batch-seconds=5 --trigger=available-now",
            "--batch-seconds has no effect on overheating as available-now: leave it out, or "
            "choose --trigger real-time or micro-batch.",
        ),
        (
            "archive --batch-seconds=0 --trigger=available-now",
            "--batch-seconds belongs to rack_temperature, ",
        ),
        (
            "archive dead_letters --state-partitions=4",
            "--state-partitions belongs to rack_temperature, ",
        ),
        (
            "overheating weak_signal --records-per-batch=1000",
            "--records-per-batch has no effect on overheating and weak_signal as real-time: "
            "leave it out, or choose --trigger micro-batch or available-now.",
        ),
        (
            "overheating --read-tasks=1",
            "--read-tasks has no effect on overheating as real-time: leave it out, or choose "
            "--trigger micro-batch or available-now.",
        ),
        (
            "user_totals archive --restarts=5 --trigger=available-now",
            "--restarts has no effect on user_totals and archive as available-now: leave it out, "
            "or choose --trigger micro-batch.",
        ),
        (
            "archive user_totals --archive-seconds=5 --trigger=available-now",
            "--archive-seconds has no effect on archive as available-now: leave it out, or choose "
            "--trigger micro-batch.",
        ),
        (
            "signal_statistics --statistics-seconds=5 --trigger=real-time",
            "--statistics-seconds has no effect on signal_statistics as real-time: leave it out, "
            "or choose --trigger micro-batch.",
        ),
    ],
)
def test_a_common_option_that_no_named_job_uses_is_refused(arguments: str, sentence: str) -> None:
    assert refusal(*arguments.split()).startswith(sentence)


@pytest.mark.parametrize(
    "arguments",
    [
        "user_totals overheating --inventory=racks.jsonl --rules=rules.yaml",
        "user_totals lost_signal --rules-batch-seconds=2",
        "weak_signal --rules-batch-seconds=2 --trigger=micro-batch",
        # Only the rules file decides whether overheating runs in micro-batches.
        "overheating --rules-batch-seconds=2 --inventory=racks.jsonl --rules=rules.yaml",
        "lost_signal --watermark=5_seconds --inventory=racks.jsonl --rules=rules.yaml",
        "archive user_totals --batch-seconds=5",
        "overheating --batch-seconds=60",
        "signal_statistics --batch-seconds=60 --trigger=real-time",
        "archive user_totals --state-partitions=2",
        "archive dead_letters --restarts=0",
        "overheating user_totals --records-per-batch=1000",
        "overheating user_totals --read-tasks=1",
        "deduplicate --state-retention=unbounded",
        "user_sessions deduplicate --state-retention=unbounded --watermark=1_hour",
        "user_totals --trigger=available-now --state-partitions=2",
        "archive signal_statistics --archive-seconds=5 --statistics-seconds=5",
        # The flags stand for different jobs as a deployment changes.
        "--all-real-time --rules-batch-seconds=2 --batch-seconds=5",
        "--all-real-time --all-micro-batch --trigger=available-now --restarts=3 --batch-seconds=5",
        "--all-micro-batch --trigger=available-now --archive-seconds=5 --statistics-seconds=5",
    ],
)
def test_a_common_option_that_one_named_job_uses_is_accepted(
    started: Started, tmp_path: Any, arguments: str
) -> None:
    rules_file(tmp_path, "rules: [{rule: rack-overheating, count: 5}, {rule: lost-signal}]")
    call(*arguments.split())
    assert len(started) == 1


@pytest.mark.parametrize("name", JOBS)
def test_a_job_uses_the_common_options_that_change_how_it_runs(name: str) -> None:
    job, usual = JOBS[name], RunOptions()
    assert job.triggers_with("inventory") == (
        set(job.plans) if hasattr(job.options(), "inventory") else set()
    )
    partitions = RunOptions(state_partitions=7).state_partitions_for(job)
    assert job.triggers_with("state_partitions") == (set(job.plans) if partitions == 7 else set())
    other = timedelta(seconds=77)
    for option, given in (
        ("batch_seconds", RunOptions(batch=other)),
        ("rules_batch_seconds", RunOptions(rules_batch=other)),
    ):
        changed = {
            trigger
            for trigger in job.plans
            # With available-now Spark starts each batch at once, whatever its length.
            if trigger is not Trigger.AVAILABLE_NOW
            and given.batch_for(ConfiguredJob(job, job.options(), trigger))
            != usual.batch_for(ConfiguredJob(job, job.options(), trigger))
        }
        assert job.triggers_with(option) == changed, option


@pytest.mark.parametrize("name", [name for name, job in JOBS.items() if job.interval_option])
def test_a_job_uses_its_own_interval_where_it_changes_its_batches(name: str) -> None:
    job, usual = JOBS[name], RunOptions()
    given: dict[str, Any] = {job.interval_option: 77.0}
    changed = {
        trigger
        for trigger in set(job.plans) - {Trigger.AVAILABLE_NOW}
        if usual.batch_for(ConfiguredJob(job, job.options(**given), trigger))
        != usual.batch_for(ConfiguredJob(job, job.options(), trigger))
    }
    assert job.triggers_with(job.interval_option) == changed == {Trigger.MICRO_BATCH}


def test_the_command_lines_of_all_load_plans_are_accepted(started: Started, tmp_path: Any) -> None:
    (tmp_path / commands.INVENTORY).write_text(RACK, encoding="utf-8")
    lines = set()
    for plan in load_plans().values():
        for point in (*points(plan), *points(shortened(plan))):
            if point.settings.engine == "spark" and point.settings.jobs:
                lines.add(tuple(commands.jobs(point, tmp_path)))
    for line in lines:
        call(*line[2:])
    assert len(started) == len(lines) > 20


def test_the_command_lines_of_all_containers_are_accepted(started: Started, tmp_path: Any) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "world/inventory.jsonl").write_text(RACK, encoding="utf-8")
    lines = []
    for file in ("docker-compose.yml", "tests/containers/failover.yml"):
        text = (ROOT / file).read_text(encoding="utf-8")
        services = yaml.safe_load(text.replace("/var/lib/rackstream", str(tmp_path)))["services"]
        for service in services.values():
            before, _, given = " ".join(service.get("command", [])).partition("run ")
            if given and before.split()[-1:] in ([], ["spark_jobs"], ["submit.py"]):
                lines.append(given.split())
    for line in lines:
        call(*line)
    assert len(started) == len(lines) == 7


def test_the_command_lines_of_the_demo_are_accepted(
    started: Started, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = rules_file(tmp_path, "rules: [{rule: rack-overheating, count: 5}]")
    (tmp_path / "racks.jsonl").rename(tmp_path / "inventory.jsonl")
    lines = []

    def note(_demo: Demo, _name: str, command: list[str], **_environment: str) -> Any:
        lines.append(command)
        return SimpleNamespace(process=SimpleNamespace(poll=lambda: 0, returncode=0))

    monkeypatch.setattr(Demo, "_start", note)
    rules = Path(files[1].partition("=")[2])
    options = Options(tmp_path / "scenario.yaml", Scenario(), rules, None, None)
    demo = Demo(options, Settings(), tmp_path, Signals())
    for name, jobs, given in demo._programs():
        demo._start_spark(name, jobs, given)
    demo._archive_all()
    for line in lines:
        call(*line[2:])
    assert len(started) == len(lines) == 3


def test_the_two_flags_run_each_job_once_by_its_default_trigger(
    started: Started, tmp_path: Any
) -> None:
    call("--all-real-time")
    call("--all-micro-batch")
    call("--all-real-time", "--all-micro-batch")
    real_time, micro_batch, both = (names(jobs) for jobs, _ in started)
    assert set(real_time) == {*REAL_TIME, "dead_letters"}
    assert sorted(real_time + micro_batch) == sorted([*JOBS, "dead_letters"])
    rules = [job for job in JOBS if job in RULE_JOBS.values()]
    others = [job for job in JOBS if job not in rules]
    # The dead letters come twice: once for topics in real time, once for the others.
    assert both == [*rules, *others, "dead_letters"]

    # Some rules that a file can describe have no real-time plan.
    for rule, of_the_first_flag in (
        ("rising: 2", REAL_TIME - {"overheating"}),
        ("count: 2", REAL_TIME),
    ):
        started.clear()
        files = rules_file(tmp_path, f"rules: [{{rule: rack-overheating, {rule}}}]")
        call("--all-real-time", *files)
        call("--all-micro-batch", *files)
        real_time, micro_batch = (names(jobs) for jobs, _ in started)
        assert set(real_time) == {*of_the_first_flag, "dead_letters"}
        assert sorted(real_time + micro_batch) == sorted([*JOBS, "dead_letters"])


def test_a_rule_that_has_no_real_time_plan_is_named_with_its_line_and_the_delay(
    started: Started, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
rules:
  - {rule: weak-signal, below: 0.1}
  - rule: rack-overheating
    racks: [rack-0001]
    threshold_c: 80
    count: 5
    severity: critical
"""
    call("overheating", *rules_file(tmp_path, text))
    assert capsys.readouterr().err == ""
    files = rules_file(tmp_path, text + "    within_s: 10\n")
    call("overheating", "weak_signal", *files)
    assert capsys.readouterr().err == (
        f"overheating runs in micro-batches because of line 9 of the rules {tmp_path}/rules.yaml "
        "(rules[1].within_s): expect its alerts after 1 to 4 s instead of milliseconds.\n"
    )
    call("overheating", "--batch-seconds=60", *files)
    assert "expect its alerts after 1 to 64 s instead" in capsys.readouterr().err
    call("overheating", "--trigger=available-now", *files)
    assert capsys.readouterr().err == ""
    triggers = [jobs[0].trigger for jobs, _ in started]
    assert triggers == [
        Trigger.REAL_TIME,
        Trigger.MICRO_BATCH,
        Trigger.MICRO_BATCH,
        Trigger.AVAILABLE_NOW,
    ]


def test_a_limit_of_records_says_which_jobs_it_does_not_limit(
    started: Started, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = rules_file(tmp_path, "rules: []")[0]
    call("silent_sensor", "user_totals", inventory)
    call("user_totals", "--records-per-batch=1000")
    assert capsys.readouterr().err == ""
    call("silent_sensor", "user_totals", "site_outage", "--records-per-batch=1000", inventory)
    assert capsys.readouterr().err == (
        "--records-per-batch does not limit silent_sensor and site_outage: each of their "
        "batches reads all there is.\n"
    )
    assert len(started) == 3


def test_dead_letters_are_added_last_unless_they_are_refused_or_named(started: Started) -> None:
    call("overheating", "user_totals")
    call("overheating", "user_totals", "--no-dead-letters")
    call("dead_letters", "overheating", "--trigger=micro-batch")
    call("archive")
    added, refused, named, none = (jobs for jobs, _ in started)
    assert names(added) == ["overheating", "user_totals", "dead_letters", "dead_letters"]
    assert [(one.flow, one.trigger) for one in added[2:]] == [
        ("rack-readings -> dead-letters", Trigger.REAL_TIME),
        ("user-actions -> dead-letters", Trigger.MICRO_BATCH),
    ]
    assert names(refused) == ["overheating", "user_totals"]
    assert names(named) == ["overheating", "dead_letters"]
    assert len(named[1].topics_read) == 5
    assert names(none) == ["archive"]
    assert refusal("dead_letters", "--no-dead-letters") == (
        "leave out dead_letters, or --no-dead-letters."
    )


def test_the_two_flags_take_what_deployments_need_and_no_options_of_single_jobs(
    started: Started,
) -> None:
    call("--all-micro-batch", "--archive=/data/archive", "--trigger=available-now")
    ((jobs, _),) = started
    assert {getattr(one.options, "archive", None) for one in jobs} == {None, "/data/archive"}
    assert {one.trigger for one in jobs} == {Trigger.AVAILABLE_NOW}
    assert refusal("--all-micro-batch", "--gap=1 hour") == (
        "--gap belongs to user_sessions, and --all-micro-batch takes no options of single jobs: "
        "name the jobs to run instead."
    )
    assert refusal("--all-real-time", "--archive=x").startswith("--archive belongs to archive, and")
    assert refusal("--all-real-time", "overheating") == (
        "--all-real-time runs all jobs of its kind: leave out overheating, or --all-real-time."
    )


def test_the_inventory_and_the_rules_reach_the_jobs_of_rules(
    started: Started, tmp_path: Any
) -> None:
    (tmp_path / "racks.jsonl").write_text(RACK, encoding="utf-8")
    (tmp_path / "rules.yaml").write_text("rules: [{rule: silent-sensor, after_s: 5}]", "utf-8")
    call(
        *("silent_sensor", "user_totals"),
        *(f"--inventory={tmp_path}/racks.jsonl", f"--rules={tmp_path}/rules.yaml"),
    )
    ((silent, totals, *_),) = [jobs for jobs, _ in started]
    options: Any = silent.options
    assert [rack.rack_id for rack in options.inventory] == ["rack-0001"]
    assert len(options.rules.rules) == 1
    assert silent.job.state_version != JOBS["silent_sensor"].state_version
    assert not hasattr(totals.options, "rules")


def test_a_job_has_the_same_state_version_by_name_and_by_flag(
    started: Started, tmp_path: Any
) -> None:
    (tmp_path / "racks.jsonl").write_text(RACK, encoding="utf-8")
    (tmp_path / "rules.yaml").write_text(
        "rules: [{rule: rack-overheating, rising: 2}, {rule: silent-sensor, after_s: 5}]", "utf-8"
    )
    files = [f"--inventory={tmp_path}/racks.jsonl", f"--rules={tmp_path}/rules.yaml"]
    call(*JOBS, *files)
    call("--all-real-time", "--all-micro-batch", *files)
    by_name, by_flag = (
        {one.job.name: one.job.state_version for one in jobs} for jobs, _ in started
    )
    assert by_flag == by_name, "another version is another checkpoint"
    assert by_name["overheating"].startswith(f"{JOBS['overheating'].state_version}-")


def test_a_job_that_needs_an_inventory_or_another_trigger_says_so() -> None:
    outage = JOBS["site_outage"]
    with pytest.raises(UserFacingError, match="how many racks each site has: add --inventory"):
        outage.check(Trigger.MICRO_BATCH, outage.options())
    with pytest.raises(UserFacingError, match="cannot run as real-time: choose micro-batch, avail"):
        outage.check(Trigger.REAL_TIME, outage.options())


def test_help_shows_the_options_of_the_named_jobs_with_their_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call("user_sessions", "lost_signal", "--help")
    named = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "Options of user_sessions" in named
    assert "A session ends this long after its last action. [default: 30 minutes]" in named
    assert "How late a reading may be and still count. [default: 30 seconds]" in named
    assert "--group-by" not in named
    assert "--inventory" in named
    call("--help")
    general = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "(default 4; 1 for silent_sensor and site_outage)" in general
    assert "(default 0; 0.5 for silent_sensor, 1 for site_outage, 2 for dead_letters)" in general
    assert "archive and signal_statistics have options of their own." in general
    assert "python -m spark_jobs run user_sessions --help" in general
    assert "--gap" not in general


@pytest.mark.parametrize("name", JOBS)
def test_every_option_explains_itself_in_a_sentence(name: str) -> None:
    for option in options_of(JOBS[name].options):
        assert option.help.endswith("."), option.flag
