"""Signals while a program starts or ends: Ctrl-C among its imports, and a second one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

PROGRAMS = tuple(sorted(path.parent.name for path in ROOT.glob("*/__main__.py")))


def python(*arguments: str, first_on_path: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Run Python with the checkout on its path, and some folder before it."""
    path = os.pathsep.join([str(first_on_path), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        cwd=first_on_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_ctrl_c_while_a_program_imports_its_modules_ends_it_without_a_stack_trace(
    program: str, tmp_path: Path
) -> None:
    interrupting = "import signal\nsignal.raise_signal(signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(interrupting, encoding="utf-8")
    done = python("-m", program, "--help", first_on_path=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


WITHIN_A_COMMAND = """
from typer import Typer
from events.start import end_at_ctrl_c
end_at_ctrl_c()
import signal
from events import cli
app = Typer()
@app.command()
def command():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        print("cleaned up")
cli.run(app, "program")
"""


def test_ctrl_c_within_a_command_lets_it_clean_up() -> None:
    done = python("-c", WITHIN_A_COMMAND)
    assert (done.returncode, done.stdout, done.stderr) == (130, "cleaned up\n", "")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    done = python("-c", f"{ignored}\n{WITHIN_A_COMMAND}")
    assert (done.returncode, done.stdout) == (0, "cleaned up\n")


COLLECTING = """
import signal, sys
from events.cli import collected_signals
with collected_signals(second_kills=sys.argv[1] == "kills") as received:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    print(received)
"""


def test_a_second_signal_is_collected_or_ends_the_process_at_once() -> None:
    collected, killed = (python("-c", COLLECTING, second) for second in ("counts", "kills"))
    assert (collected.returncode, collected.stdout) == (0, "[2, 15]\n")
    assert (killed.returncode, killed.stdout, killed.stderr) == (-signal.SIGTERM, "", "")
