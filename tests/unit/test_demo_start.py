"""What the demo does before and around its programs: ports, signals, the ends of logs."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from broker.server import free_port
from demo import processes
from demo.__main__ import _folder
from demo.outputs import Outputs
from demo.run import (
    CLICKSTREAM_JOBS,
    ENDLESS_DEMO_CLICKSTREAM_S,
    MICRO_BATCH_RULE_JOBS,
    REAL_TIME_JOBS,
    STATISTICS_JOB,
    Demo,
    Interrupted,
    Options,
    Signals,
    SparkProgram,
    choose_port,
    clickstream_options,
)
from events.cli import UserFacingError
from events.settings import Settings
from events.triggers import Trigger
from producer.scenario import Scenario
from spark_jobs.registry import JOBS
from tests.support import run


def stubborn(folder: Path) -> "subprocess.Popen[bytes]":
    """Start a process of the demo in a folder, which ignores SIGTERM."""
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('ready', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={processes.FOLDER_VARIABLE: str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_the_demo_runs_every_job_once() -> None:
    run = [*REAL_TIME_JOBS, *MICRO_BATCH_RULE_JOBS, *CLICKSTREAM_JOBS, STATISTICS_JOB]
    assert sorted([*run, "archive", "dead_letters"]) == sorted(JOBS)
    real_time = [name for name in JOBS if JOBS[name].default_trigger is Trigger.REAL_TIME]
    assert sorted(REAL_TIME_JOBS) == sorted(real_time)


def test_a_port_that_was_asked_for_is_never_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        assert choose_port(taken, default=taken) == taken


def test_by_default_the_usual_port_is_used_or_else_a_free_one_which_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = free_port()
    assert choose_port(None, usual) == usual
    assert capsys.readouterr().out == ""
    with socket.create_server(("127.0.0.1", usual)):
        other = choose_port(None, usual)
    assert other != usual
    assert capsys.readouterr().out == (
        f"Port {usual} is in use, so the demo's broker uses {other} (PORT= chooses another).\n"
    )
    with socket.create_server(("127.0.0.1", usual)):
        other = choose_port(None, usual, "dashboard", "--dashboard-port")
    assert capsys.readouterr().out == (
        f"Port {usual} is in use, so the demo's dashboard uses {other} "
        "(--dashboard-port chooses another).\n"
    )


def test_the_clickstream_has_an_end_in_an_endless_demo_too() -> None:
    assert "--duration=1.5" in clickstream_options(1.5)
    assert f"--duration={ENDLESS_DEMO_CLICKSTREAM_S}" in clickstream_options(None)


def test_before_the_first_alert_ctrl_c_ends_the_demo() -> None:
    signals = Signals()
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)
    with pytest.raises(Interrupted):  # in case the first one was swallowed
        signals.check()
    signals.handle(signal.SIGINT, None)  # ignored: the demo cleans up


def test_while_alerts_come_the_first_ctrl_c_ends_the_producing_and_the_second_the_demo() -> None:
    signals = Signals(producing=True)
    signals.handle(signal.SIGINT, None)
    signals.check()
    assert signals.asked_to_finish
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)


def test_any_other_signal_ends_the_demo_at_once() -> None:
    with pytest.raises(Interrupted) as raised:
        Signals(producing=True).handle(signal.SIGTERM, None)
    assert raised.value.number == signal.SIGTERM


class Producer:
    """A producer that runs until it is asked to end."""

    returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit status when it has ended."""
        return self.returncode

    def terminate(self) -> None:
        """End it."""
        self.returncode = 0


class WithAlerts:
    """Outputs that have an alert from the start; `on_poll` is called instead of reading more."""

    def __init__(self, on_poll: Callable[[], None]) -> None:
        self._on_poll = on_poll

    def has_alerts(self) -> bool:
        """Tell that there is an alert."""
        return True

    def poll(self, _: float) -> None:
        """Call the function."""
        self._on_poll()


def demo_with(signals: Signals, folder: Path) -> Demo:
    options = Options(folder / "scenario.yaml", Scenario(), None, None, None)
    return Demo(options, Settings(), folder, signals)


def test_when_no_producer_runs_ctrl_c_ends_the_demo_whenever_the_first_alert_came(
    tmp_path: Path,
) -> None:
    signals = Signals()
    demo_with(signals, tmp_path)._step(cast(Outputs, WithAlerts(lambda: None)))
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)


def test_after_the_first_alert_ctrl_c_ends_the_producers_and_once_they_have_ended_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer, signals = Producer(), Signals()
    child = processes.Child("the producer", cast(Any, producer), tmp_path / "log")
    monkeypatch.setattr(Demo, "_start_producers", lambda _: [child])
    monkeypatch.setattr(Demo, "_start_next_jobs", lambda _: None)

    polls = count(1)

    def press_ctrl_c_at_the_second() -> None:
        if next(polls) == 2:
            signals.handle(signal.SIGINT, None)

    outputs = cast(Outputs, WithAlerts(press_ctrl_c_at_the_second))
    demo_with(signals, tmp_path)._produce(outputs)
    assert signals.asked_to_finish
    assert producer.returncode == 0
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Restore the handlers of the signals that a demo takes over."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("inherited", [signal.SIG_IGN, signal.SIG_DFL])
def test_the_end_of_a_session_ends_the_demo_unless_nohup_has_it_ignored(
    inherited: signal.Handlers,
) -> None:
    signal.signal(signal.SIGHUP, inherited)
    signals = Signals()
    signals.listen()
    ignored = inherited == signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) == (signal.SIG_IGN if ignored else signals.handle)
    assert signal.getsignal(signal.SIGTERM) == signals.handle


def test_a_program_that_ends_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    child = processes.start("the x", log, {}, ["this-module-does-not-exist"])
    child.process.wait()
    with pytest.raises(UserFacingError) as raised:
        child.check()
    text = str(raised.value)
    assert text.startswith(f"the x ended with exit status 1; the end of its log, {log}:\n  ")
    assert text.endswith("No module named this-module-does-not-exist")


def test_of_a_log_only_the_end_is_shown_and_an_empty_one_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert processes.with_log_tail("it ended", log) == f"it ended; its log, {log}, is empty."
    log.write_text("".join(f"line {number}\n\n" for number in range(99)), encoding="utf-8")
    shown = processes.with_log_tail("it ended", log).splitlines()[1:]
    assert shown == [f"  line {number}" for number in range(94, 99)]


def test_a_process_that_ignores_sigterm_is_killed_and_one_of_another_demo_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_S", 0.5)
    ours, theirs = stubborn(tmp_path), stubborn(tmp_path / "other")
    try:
        processes.end_all(tmp_path)
        assert ours.wait() == -signal.SIGKILL
        assert theirs.poll() is None
    finally:
        for process in (ours, theirs):
            process.kill()
            process.communicate()


def test_a_short_watermark_is_refused_for_the_clickstream() -> None:
    done = run("demo", "run", "--watermark=5", "--duration=1")
    assert done.returncode == 1
    assert done.stderr == "demo: --watermark is for the rules alone: add --no-clickstream.\n"


def test_a_spark_program_that_never_starts_its_queries_is_named_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "spark.log"
    log.write_text("overheating (real-time)\n", encoding="utf-8")
    program = subprocess.Popen([sys.executable, "-c", ""])
    assert program.wait() == 0
    child = processes.Child("the real-time jobs", program, log)
    SparkProgram(child, ["overheating"]).wait_until_started(pytest.fail)
    monkeypatch.setattr("demo.run.START_TIMEOUT_S", 0.0)
    with pytest.raises(UserFacingError) as error:
        SparkProgram(child, ["overheating", "weak_signal"]).wait_until_started(lambda: None)
    assert str(error.value) == (
        f"the real-time jobs did not start within 0 s; the end of its log, {log}:\n"
        "  overheating (real-time)"
    )


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    signals = Signals()
    sentence = r"^the demo's folder .* cannot be written \(Not a directory\): correct RACKST"
    with pytest.raises(UserFacingError, match=sentence), _folder(tmp_path / "file" / "x", signals):
        pass


def test_a_folder_that_is_not_a_demos_is_refused_and_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    with pytest.raises(UserFacingError) as error, _folder(tmp_path, Signals()):
        pass
    assert str(error.value) == (
        f"{tmp_path} has files, but is not the folder of a demo, so it was not touched: "
        "set RACKSTREAM_HOME to another folder."
    )
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*")]
    assert sorted(map(str, files)) == ["notes", "notes/mine.txt"]


def test_the_files_of_the_demo_before_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(processes.FOLDER_VARIABLE, "")
    with _folder(tmp_path / "demo", Signals()) as folder:
        (folder / "kafka").mkdir()
        (folder / "alerts.jsonl").touch()
    with _folder(folder, Signals()):
        assert [path.name for path in folder.iterdir()] == ["lock"]
