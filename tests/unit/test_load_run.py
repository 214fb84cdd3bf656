"""A load run ends all its programs, and gives them an environment of their own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from broker import server
from broker.server import RunningBroker
from demo.processes import FOLDER_VARIABLE
from events import settings
from events.cli import END_SIGNALS, UserFacingError
from loadtest import machine, run, topics
from loadtest.measure.result import RUN, Run, save
from loadtest.plan import Gates, Plan, load_plan, points
from loadtest.point import RunContext
from loadtest.processes import environment
from loadtest.producer_benchmark import ProducerBenchmark
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


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have memory for any plan, and nothing to measure."""
    monkeypatch.setattr(run, "shortage", lambda *_: None)
    monkeypatch.setattr(machine, "describe", lambda: {"java": "21"})
    monkeypatch.setattr(machine, "busy_percent", lambda: 0.0)


def prepare_quick(folder: Path, *, resume: bool = False) -> dict[str, str]:
    """Prepare a run of the plan `quick`; return what its folder then holds, by file name."""
    plan = load_plan(QUICK)
    prepare(plan, list(points(plan)), QUICK, folder, resume=resume)
    return contents(folder)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}


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


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("resume", [True, False])
def test_a_run_ends_the_broker_and_the_programs_that_a_killed_one_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "")  # undoes afterwards what the run sets
    kafka = tmp_path / KAFKA
    prepare_quick(tmp_path)
    kafka.mkdir()
    (kafka / "server.properties").write_text(server.HEADER, encoding="utf-8")
    waiting = [sys.executable, "-c", "input()"]
    with ExitStack() as stack:
        broker = stack.enter_context(
            subprocess.Popen(
                [*waiting, server._folder_argument(kafka.resolve())], stdin=subprocess.PIPE
            )
        )
        stack.callback(broker.kill)
        with exclusive(tmp_path):
            jobs = stack.enter_context(subprocess.Popen(waiting, stdin=subprocess.PIPE))
        stack.callback(jobs.kill)
        (kafka / "process.json").write_text(
            f'{{"pid": {broker.pid}, "port": 9092}}', encoding="utf-8"
        )
        assert server.find(kafka)
        running: list[bool] = []
        monkeypatch.setattr(
            run, "shortage", lambda *_: running.extend(p.poll() is None for p in (broker, jobs))
        )
        prepare_quick(tmp_path, resume=resume)
        assert running == [False, False]  # before memory is compared with the plan's need
    assert kafka.exists() == resume


def test_a_broker_in_a_folder_of_its_own_is_stopped_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACKSTREAM_HOME", str(tmp_path))
    monkeypatch.setattr(server, "jar_paths", lambda *_: [])
    monkeypatch.setattr(server, "find", lambda path: RunningBroker(9092, 1, path))
    with pytest.raises(UserFacingError, match=r"`python -m broker down`\.$"):
        server.start(9093, tmp_path / "kafka")
    own = tmp_path / "load" / "kafka"
    with pytest.raises(UserFacingError, match=rf"`python -m broker down --data-dir={own}`\.$"):
        server.start(9093, own)


@pytest.mark.usefixtures("ready")
def test_an_end_before_the_first_point_keeps_the_earlier_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_quick(tmp_path)
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "result.json").write_text("{}", encoding="utf-8")
    before = contents(tmp_path)

    def no_java() -> dict[str, str]:
        raise UserFacingError("Java is not installed.")

    with monkeypatch.context() as patch:
        patch.setattr(machine, "describe", no_java)
        with pytest.raises(UserFacingError, match="Java"):
            prepare_quick(tmp_path)
    assert contents(tmp_path) == before
    assert sorted(prepare_quick(tmp_path)) == ["plan.yaml", RUN]


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_that_was_being_emptied_can_be_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    prepare_quick(tmp_path)
    (tmp_path / "points").mkdir()

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepare_quick(tmp_path)
    assert sorted(prepare_quick(tmp_path, resume=resume)) == ["plan.yaml", RUN]
    assert not (tmp_path / "points").exists()


@pytest.mark.usefixtures("ready")
def test_a_resumed_run_keeps_the_begin_and_the_machine_of_its_first_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = load_plan(QUICK)

    def prepared_run(*, resume: bool) -> Run:
        return prepare(plan, list(points(plan)), QUICK, tmp_path, resume=resume)[0]

    first = replace(prepared_run(resume=False), began="2026-01-01T00:00:00.000Z")
    save(first, tmp_path / RUN)
    monkeypatch.setattr(machine, "busy_percent", lambda: 50.0)
    assert prepared_run(resume=True) == first
    monkeypatch.setattr(machine, "describe", lambda: {"java": "22"})
    with pytest.raises(
        UserFacingError, match=r"was measured with java 21, now 22: leave --resume out\.$"
    ):
        prepared_run(resume=True)
    assert prepared_run(resume=False).machine["java"] == "22"


def test_a_second_run_of_the_same_name_is_refused_and_touches_nothing(
    tmp_path: Path, stopped: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, "")  # undoes afterwards what the run sets
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


def test_the_first_benchmark_on_a_broker_is_rehearsed_whichever_repeat_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def send(self: ProducerBenchmark, status: str) -> SimpleNamespace:
        sent.append(f"{self._point.repeat} {status}")
        self._folder.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(write=lambda _: None)

    monkeypatch.setattr(ProducerBenchmark, "_send", send)
    monkeypatch.setattr(ProducerBenchmark, "_result", lambda *_: Gates())  # any record
    monkeypatch.setattr(topics, "remove", lambda *_: None)
    planned = list(points(Plan(jobs=(), count=9, truth=False, repeats=3)))
    resumed = RunContext(RunningBroker(1, 1, tmp_path), tmp_path, lambda _: None)
    for point in planned[1:]:  # an earlier run has finished the first one
        ProducerBenchmark(resumed, point, Gates()).run()
    assert sent == ["1 rehearsing", "1 sending", "2 sending"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sentence = r"^the folder of the runs .* cannot be written \(Not a directory\): correct RACKST"
    with (
        pytest.raises(UserFacingError, match=sentence),
        exclusive(tmp_path / "file" / "x" / "load"),
    ):
        pass
