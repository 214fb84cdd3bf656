"""What the demo does before and around its programs: ports, signals, last words."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from demo import processes
from demo.run import Interrupted, Signals, choose_port
from events.cli import PersonError
from tests.support import free_port


def stubborn(folder: Path) -> "subprocess.Popen[bytes]":
    """Start a process that bears the mark of a demo's folder and takes no notice of SIGTERM."""
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={processes.MARK: str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def test_a_port_that_was_asked_for_is_never_exchanged() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = holder.getsockname()[1]
        assert choose_port(taken, usual=taken) == taken


def test_without_a_wish_the_usual_port_is_used_or_a_free_one_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual = free_port()
    assert choose_port(None, usual) == usual
    assert capsys.readouterr().out == ""
    with socket.create_server(("127.0.0.1", usual)):
        other = choose_port(None, usual)
    assert other != usual
    assert capsys.readouterr().out == (
        f"Port {usual} is taken, so the demo's broker uses {other} (PORT= chooses another).\n"
    )


def test_before_the_first_alert_ctrl_c_ends_the_demo() -> None:
    signals = Signals()
    with pytest.raises(Interrupted):
        signals.handle(signal.SIGINT, None)
    with pytest.raises(Interrupted):  # should the first one have been swallowed on its way
        signals.check()
    signals.handle(signal.SIGINT, None)  # cleaning up goes on


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


def test_a_program_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "x.log"
    child = processes.start("the x", log, {}, ["this-module-does-not-exist"])
    child.process.wait()
    with pytest.raises(PersonError) as raised:
        child.check()
    text = str(raised.value)
    assert text.startswith(f"the x ended with exit status 1, with these last words (all of them: {log}):\n  ")
    assert text.endswith("No module named this-module-does-not-exist")


def test_last_words_are_few_and_their_absence_is_said(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    assert processes.last_words("it ended", log) == f"it ended without a word; its log would lie in {log}."
    log.write_text("".join(f"line {number}\n\n" for number in range(99)), encoding="utf-8")
    shown = processes.last_words("it ended", log).splitlines()[1:]
    assert shown == [f"  line {number}" for number in range(94, 99)]


def test_what_ignores_a_request_to_end_is_killed_and_strangers_are_left_alone(
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
