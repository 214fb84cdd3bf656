"""How long a point waits, which failures blame the load, and which dead letters it expects."""

import json
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from broker.server import RunningBroker
from events.catalog import JobName
from events.cli import UserFacingError
from loadtest import commands, point, programs
from loadtest.measure.correctness import compare_outputs, compared_kinds, is_result
from loadtest.plan import NO_DEAD_LETTERS, Gates, Plan, PointSettings, load_plan, points
from loadtest.point import PointRun, RunContext, longest_idle_s
from loadtest.programs import ProgramFailedError, Programs
from tests.support import ROOT


def test_a_live_point_waits_a_minute_for_outputs_that_are_missing() -> None:
    (quick, *_) = points(load_plan(ROOT / "loadtest" / "plans" / "quick.yaml"))
    assert quick.settings.trigger == "real-time"
    assert longest_idle_s(quick.settings, outputs_missing=False) < 10
    assert longest_idle_s(quick.settings, outputs_missing=True) == 60


def test_a_program_that_fails_before_it_runs_does_not_fail_because_of_the_load(
    tmp_path: Path,
) -> None:
    programs = Programs(tmp_path, {})
    failing = (sys.executable, "-c", "print('no such option'); raise SystemExit(3)")
    with programs.running("jobs", launcher=failing) as jobs:
        jobs.wait()
        with pytest.raises(UserFacingError, match="ended with exit status 3: no such") as at_start:
            programs.wait_for_output("jobs", ["running"])
        with pytest.raises(ProgramFailedError, match="ended with exit status 3: no such option"):
            programs.check()
    assert type(at_start.value) is UserFacingError


class Clock:
    """Time that passes only while the load tool sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(point, "time", moved)
    monkeypatch.setattr(point, "POLL_S", 2.0)
    return moved


CATCH_UP = Plan(jobs=("overheating",), trigger="micro-batch", count=10**8, kill_at=0.5)
ENGINE = Plan(jobs=("overheating",), engine="flink", count=10**8, truth=False)
LIVE = Plan(jobs=("overheating",), truth=False)


def point_run(folder: Path, plan: Plan) -> PointRun:
    (planned,) = points(plan)
    (folder / "points" / planned.folder).mkdir(parents=True)
    context = RunContext(RunningBroker(1, 1, folder), folder, lambda _: None)
    return PointRun(context, planned, Gates())


def sampler(clock: Clock, until_s: float) -> Any:
    """Return a sampler that sees an output every five seconds until a time."""

    class Outputs:
        @property
        def output_count(self) -> int:
            return int(min(clock.now, until_s) / 5)

    return Outputs()


def jobs_until(clock: Clock, end_s: float, at_poll: Callable[[], object] = lambda: None) -> Any:
    """Return jobs that run until a time."""

    def poll() -> int | None:
        at_poll()
        return 0 if clock.now >= end_s else None

    return SimpleNamespace(poll=poll, pid=1)


def test_a_catch_up_may_take_any_time_while_batches_end(tmp_path: Path, clock: Clock) -> None:
    run = point_run(tmp_path, CATCH_UP)

    def end_batches() -> None:
        run._file(commands.PROGRESS).write_text("x" * int(clock.now / 500), encoding="utf-8")

    run._await_end(jobs_until(clock, 2000, end_batches), sampler(clock, 0))
    assert 2000 <= clock.now < 2010


def test_a_catch_up_may_take_any_time_while_outputs_come(tmp_path: Path, clock: Clock) -> None:
    point_run(tmp_path, CATCH_UP)._await_end(jobs_until(clock, 2000), sampler(clock, 1500))
    assert 2000 <= clock.now < 2010


def test_a_catch_up_that_stands_still_fails_and_says_so(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = point_run(tmp_path, CATCH_UP)
    stuck, outputs = jobs_until(clock, 1e9), sampler(clock, 1000)
    for log in ("jobs", "killed-jobs"):
        run._programs.log(log).write_text("stuck\n", encoding="utf-8")
    reason = "the jobs did not end within 600 s of their last batch or output: stuck"
    with pytest.raises(UserFacingError, match=reason):
        run._await_end(stuck, outputs)
    assert 1600 <= clock.now < 1610
    monkeypatch.setattr(PointRun, "_start_jobs", lambda *_: stuck)
    with pytest.raises(UserFacingError, match=reason):
        run._run_until_killed(outputs)
    assert 2200 <= clock.now < 2210


def test_a_catch_up_of_an_engine_ends_after_its_last_output(tmp_path: Path, clock: Clock) -> None:
    assert point_run(tmp_path, ENGINE)._drain(sampler(clock, 2000))
    assert 2060 <= clock.now < 2070


def test_after_a_load_at_a_rate_outputs_are_awaited_for_ten_minutes(
    tmp_path: Path, clock: Clock
) -> None:
    assert not point_run(tmp_path, LIVE)._drain(sampler(clock, 1e9))
    assert 600 <= clock.now < 610


def dead_letter(offset: int, reason: str = "unreadable") -> dict[str, Any]:
    return {
        "kind": "dead-letter",
        "source_topic": "rack-readings",
        "partition": 0,
        "offset": offset,
        "reason": reason,
        "value_size": 1,
    }


TRUTH = {"dead-letter": [dead_letter(1), dead_letter(2)]}
REPORTED = {
    "all": ([dead_letter(1), dead_letter(2), dead_letter(2)], 0, 0),
    "one less": ([dead_letter(1)], 1, 0),
    "one more": ([dead_letter(1), dead_letter(2), dead_letter(3)], 0, 1),
    "another reason": ([dead_letter(1), dead_letter(2, "future")], 0, 1),
    "none": ([], 2, 0),
}


@pytest.mark.parametrize("name", REPORTED)
def test_jobs_must_report_exactly_the_dead_letters_of_the_truth(name: str) -> None:
    rows, missing, wrong = REPORTED[name]
    found = compare_outputs(LIVE, TRUTH, {"alerts": [], "dead-letters": rows})["dead letters"]
    assert (found.expected, len(found.missing), len(found.wrong)) == (2, missing, wrong)
    assert found.passed == (missing == wrong == 0)


@pytest.mark.parametrize("name", REPORTED)
@pytest.mark.parametrize("settings", [replace(LIVE, options=(NO_DEAD_LETTERS,)), ENGINE])
def test_jobs_that_report_no_dead_letters_must_not_write_any(
    name: str, settings: PointSettings
) -> None:
    rows, _, _ = REPORTED[name]
    found = compare_outputs(settings, TRUTH, {"alerts": [], "dead-letters": rows})["dead letters"]
    assert (found.expected, found.missing, found.passed) == (0, [], name == "none")


def test_of_rows_that_are_written_again_the_last_one_counts() -> None:
    total = {"user_id": "u", "event_time": "x", "amount_total": 5.0, "purchase_count": 1}
    alert = {"alert_id": "a", "rule": "rack-overheating", "subject": "r", "state": "WARNING"}
    plan = Plan(jobs=("overheating", "user_totals"), trigger="micro-batch")
    truth: dict[str, list[dict[str, Any]]] = {"alert": [alert], "total": [total]}
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    seen["alerts"] = [{**alert, "event_time": "x"}] * 2
    seen["user-totals"] = [{**total, "purchase_count": 2}, total]
    found = compare_outputs(plan, truth, seen)
    assert {name: (each.actual, each.passed) for name, each in found.items()} == {
        "alerts": (1, True),
        "user totals": (1, True),
        "dead letters": (0, True),
    }


@pytest.mark.parametrize(
    ("job", "option"),
    [
        ("rack_temperature", "--window=10 seconds"),
        ("rack_temperature", "--output-mode=append"),
        ("user_totals", "--state-retention=ttl"),
        ("user_sessions", "--device-gap=phone=10 minutes"),
        ("ad_attribution", "--first-only"),
        ("ad_attribution", "--impressions-watermark=1 minute"),
        ("ad_attribution", "--clicks-watermark=1 minute"),
    ],
)
def test_results_are_not_compared_where_an_option_changes_them(job: str, option: str) -> None:
    plan = Plan(jobs=(job,), trigger="micro-batch", flush=True)
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)
    assert compare_outputs(plan, {}, seen)
    assert not compare_outputs(replace(plan, options=(option,)), {}, seen)


@pytest.mark.parametrize(
    ("jobs", "option"),
    [
        (("overheating",), "--records-per-batch=1000"),
        (("overheating",), "--rules=rules.yaml"),
        (("signal_statistics",), "--statistics-seconds=5"),
        (("overheating", "dead_letters"), "--topic=rack-readings"),
    ],
)
def test_results_are_compared_where_an_option_leaves_them_as_they_are(
    jobs: tuple[str, ...], option: str
) -> None:
    plan = Plan(jobs=jobs, trigger="micro-batch", options=(option,))
    assert compare_outputs(plan, {}, defaultdict(list))


@pytest.mark.parametrize(
    ("jobs", "options", "are_result"),
    [
        (("overheating",), (), False),
        (("deduplicate",), ("--topic=rack-readings",), False),
        (("dead_letters",), ("--topic=rack-readings",), True),
    ],
)
def test_dead_letters_are_a_result_only_of_the_job_that_is_about_them(
    jobs: tuple[str, ...], options: tuple[str, ...], are_result: bool
) -> None:
    plan = Plan(jobs=jobs, trigger="micro-batch", options=options)
    found = compare_outputs(plan, TRUTH, defaultdict(list))
    names = [name for name in found if is_result(plan, name)]
    assert ("dead letters" in found, "dead letters" in names) == (True, are_result)
    assert ("alerts" in names) == (jobs == ("overheating",))


@pytest.mark.parametrize(
    ("job", "changes", "kinds", "compared"),
    [
        ("overheating", {}, {"alert"}, {"alerts"}),
        ("rack_temperature", {}, {"window"}, {"windows"}),
        ("rack_temperature", {"options": ("--window=10 seconds",)}, set(), set()),
        ("signal_statistics", {}, {"signal-statistic"}, {"signal statistics"}),
        ("user_totals", {}, {"total"}, {"user totals"}),
        ("action_counts", {}, {"action-count"}, {"action counts"}),
        ("user_sessions", {}, set(), set()),
        ("user_sessions", {"flush": True}, {"session"}, {"sessions"}),
        ("ad_attribution", {}, {"attribution"}, {"clicked impressions"}),
        (
            "ad_attribution",
            {"flush": True},
            {"attribution"},
            {"clicked impressions", "unclicked impressions"},
        ),
        ("deduplicate", {}, set(), set()),
    ],
)
def test_of_the_truth_are_asked_and_compared_the_rows_that_a_job_must_write(
    job: JobName, changes: dict[str, Any], kinds: set[str], compared: set[str]
) -> None:
    plan = replace(Plan(jobs=(job,), trigger="micro-batch"), **changes)
    assert set(compared_kinds(plan)) == {"dead-letter"} | kinds
    assert {*compare_outputs(plan, TRUTH, defaultdict(list))} == {"dead letters"} | compared


@pytest.mark.parametrize(("options", "outputs"), [((), 3), ((NO_DEAD_LETTERS,), 1)])
def test_a_point_waits_for_the_dead_letters_that_its_jobs_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], outputs: int
) -> None:
    run = point_run(tmp_path, replace(LIVE, truth=True, options=options))
    assert ("--no-dead-letters" in commands.jobs(run._point, run._folder)) == bool(options)
    rows = [{"kind": "alert"}, *TRUTH["dead-letter"]]
    run._file(commands.TRUTH).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert run._expected_outputs() == outputs

    monkeypatch.setattr(programs, "START_S", 0.0)
    log = run._programs.log("jobs")
    log.write_text("overheating (real-time): ...\n", encoding="utf-8")
    with nullcontext() if options else pytest.raises(UserFacingError, match="did not start"):
        run._await_jobs("jobs")
    with log.open("a", encoding="utf-8") as file:
        file.write("dead_letters (real-time): ...\n")
    run._await_jobs("jobs")
