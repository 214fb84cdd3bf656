"""A load run ends all its programs, and gives them an environment of their own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker import server
from broker.server import RunningBroker
from events import settings
from events.cli import END_SIGNALS, UserFacingError
from loadtest import run
from loadtest.measure.result import RUN
from loadtest.plan import load_plan, points
from loadtest.processes import environment
from loadtest.run import KAFKA, exclusive, prepare, run_context, run_plan
from tests.support import ROOT

QUICK = ROOT / "loadtest" / "plans" / "quick.yaml"


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Start no broker, collect the folders of those that are stopped, and restore handlers."""
    folders: list[Path] = []
    monkeypatch.setattr(server, "start", lambda port, path, **_: RunningBroker(port, 1, path))
    monkeypatch.setattr(server, "stop", folders.append)
    before = [(number, signal.getsignal(number)) for number in END_SIGNALS]
    yield folders
    for number, handler in before:
        signal.signal(number, handler)


def test_the_end_of_the_terminal_stops_the_broker(tmp_path: Path, stopped: list[Path]) -> None:
    signal.signal(signal.SIGHUP, lambda *_: None)
    with pytest.raises(SystemExit) as ended, run_context(tmp_path, lambda _: None):
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.code == 128 + signal.SIGHUP
    assert stopped == [tmp_path / KAFKA]


def test_under_nohup_a_run_outlives_its_terminal(tmp_path: Path, stopped: list[Path]) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with run_context(tmp_path, lambda _: None):
        signal.raise_signal(signal.SIGHUP)
        assert not stopped


def test_a_new_run_stops_the_broker_that_an_earlier_one_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "shortage", lambda *_: None)  # no point runs, so none needs memory
    kafka = tmp_path / KAFKA
    kafka.mkdir()
    (tmp_path / RUN).write_text("{}", encoding="utf-8")
    (kafka / "server.properties").write_text(server.HEADER, encoding="utf-8")
    argument = server._folder_argument(kafka.resolve())
    plan = load_plan(QUICK)
    with subprocess.Popen([sys.executable, "-c", "input()", argument], stdin=subprocess.PIPE) as it:
        try:
            (kafka / "process.json").write_text(
                f'{{"pid": {it.pid}, "port": 9092}}', encoding="utf-8"
            )
            assert server.find(kafka)
            prepare(plan, list(points(plan)), QUICK, tmp_path, resume=False)
            assert it.poll() is not None
        finally:
            it.kill()
    assert not kafka.exists()


def test_a_second_run_of_the_same_name_is_refused_and_touches_nothing(
    tmp_path: Path, stopped: list[Path]
) -> None:
    folder = tmp_path / "quick"
    with exclusive(folder):
        folder.mkdir()
        (folder / RUN).write_text("{}", encoding="utf-8")
        with pytest.raises(UserFacingError, match=r"another run uses .*: wait for its end, or "):
            run_plan(load_plan(QUICK), QUICK, folder)
        assert not stopped
        assert [entry.name for entry in folder.iterdir()] == [RUN]
    with exclusive(folder):
        pass


def test_programs_of_a_run_serve_no_metrics(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("METRICS_PORT=9101\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(settings.ENV_FILE_VARIABLE, raising=False)
    monkeypatch.setenv("METRICS_PORT", "9102")
    for name, value in environment("localhost:19092", "load-").items():
        monkeypatch.setenv(name, value)
    found = settings.load()
    assert (found.kafka_bootstrap_servers, found.topic_prefix) == ("localhost:19092", "load-")
    assert found.metrics_port is None
