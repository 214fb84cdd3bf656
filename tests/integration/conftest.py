"""Provide a broker that a test may stop, and commands that run in the process of the tests."""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module

import psutil
import pytest

from broker import server
from broker.server import RunningBroker, free_port
from events import cli

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Run a broker for one file."""
    first = server.start(free_port(), tmp_path_factory.mktemp("own-kafka"))
    try:
        yield first
    finally:
        if (running := server.find(first.data_dir)) is not None:
            psutil.Process(running.pid).resume()
            running.stop()
        if first.child is not None:
            first.child.wait()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command line here, where all modules are loaded already.

    Its words are those after `python -m`. It returns the exit status, the standard output and the
    standard error.
    """

    def run_here(*words: str) -> tuple[object, str, str]:
        program = words[0]
        monkeypatch.setattr(sys, "argv", list(words))
        with pytest.raises(SystemExit) as end:
            cli.run(import_module(f"{program}.__main__").app, program)
        return end.value.code, *capsys.readouterr()

    return run_here
