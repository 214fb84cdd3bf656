"""The demo as a person runs it: a verdict that is earned, and nothing left behind however it ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from demo.observe import read_truth
from demo.verdict import Seen, judge
from events import settings
from events.times import now_ms, to_ms
from tests.support import ROOT, eventually, free_port

pytestmark = [pytest.mark.broker, pytest.mark.spark]

DENSE = """
racks: 20
rate: 400
seed: 7
faults:
  - {fault: overheating, racks: 4, start_s: 1, length_s: 1, every_s: 2, stagger_s: 0.2}
  - {fault: duplicate, share: 0.04}
  - {fault: late, share: 0.02, max_s: 2}
  - {fault: too-late, share: 0.0005}
  - {fault: out-of-order, share: 0.02}
  - {fault: malformed, share: 0.002}
"""
"""In a few seconds what the demo's own scenario shows in sixty."""
SPOTLESS = DENSE.replace("  - {fault: malformed, share: 0.002}\n", "")
"""Without a dead letter, so that it proves too little, however long it runs."""


@dataclass
class Running:
    """A demo, its folder, its output, and every process that was seen to be started by it."""

    process: "subprocess.Popen[bytes]"
    home: Path
    output: Path
    started: set[psutil.Process] = field(default_factory=set)

    def note(self) -> set[psutil.Process]:
        """Add the processes that run now to those that were seen."""
        with suppress(psutil.NoSuchProcess):
            self.started.update(psutil.Process(self.process.pid).children(recursive=True))
        return self.started

    def child(self, words: str) -> psutil.Process | None:
        """Return the process with these words on its command line, if there is one."""
        for process in self.note():
            with suppress(psutil.Error):
                if words in " ".join(process.cmdline()):
                    return process
        return None

    def reach(self, moment: Callable[["Running"], object]) -> None:
        """Wait for a moment that comes while the demo runs; fail at once when it has ended before."""

        def look() -> object:
            reached = moment(self)
            assert reached or self.process.poll() is None, self.text()
            return reached

        eventually(look, timeout_s=180, every_s=0.01)
        self.note()

    def status(self) -> int:
        """Wait until the demo has ended, and return its exit status."""

        def ended() -> int | None:
            self.note()
            return self.process.poll()

        status = eventually(ended, lambda status: status is not None, timeout_s=480)
        assert status is not None
        return status

    def text(self) -> str:
        """Return what it said so far."""
        return self.output.read_text(encoding="utf-8")

    def survivors(self) -> list[psutil.Process]:
        """Return the processes that it started and that still run."""
        return [process for process in self.started if _runs(process)]


def logged_in(text: str) -> list[dict[str, Any]]:
    """Return the alerts of a demo's output. Its last line may be half written while the demo runs."""
    whole, _, _ = text.rpartition("\n")
    return [msgspec.json.decode(line) for line in whole.splitlines() if line.startswith("{")]


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@contextmanager
def demo(tmp_path: Path, *options: str, content: str = DENSE, **env: str) -> Iterator[Running]:
    home, output = tmp_path / "home", tmp_path / "output"
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(content, encoding="utf-8")
    jars = str(settings.load().jars_dir.resolve())
    with output.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "demo", f"--scenario={scenario}", *options],
            cwd=ROOT,
            env={**os.environ, "RACKSTREAM_HOME": str(home), "RACKSTREAM_JARS": jars, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    running = Running(process, home / "demo", output)
    try:
        yield running
    finally:
        running.note()
        process.kill()
        process.wait()
        for each in running.started:
            with suppress(psutil.NoSuchProcess):
                each.kill()


def test_everything_due_comes_out_and_a_tampered_truth_would_be_noticed(tmp_path: Path) -> None:
    port = free_port()
    with demo(tmp_path, DURATION="15", PORT=str(port)) as running:
        assert running.status() == 0, running.text()
        text = running.text()
        assert running.survivors() == []
    assert "0 missing, 0 wrong" in text
    assert f"localhost:{port}" in text
    logged = logged_in(text)
    told = read_truth(running.home / "truth.jsonl")
    sure = [alert for alert in told.alerts if not alert.get("either")]
    assert len(sure) >= 40
    ids = {alert["alert_id"] for alert in sure}
    # After the end all racks are silent: whether the demo lasts until that is noticed depends on the machine.
    of_the_end = [alert for alert in logged if alert["alert_id"] not in ids]
    assert {alert["rule"] for alert in of_the_end} <= {"silent-sensor", "site-outage"}
    logged = [alert for alert in logged if alert["alert_id"] in ids]
    assert {alert["alert_id"] for alert in logged} == ids
    told = replace(told, alerts=sure)
    seen = Seen(logged, dead_letters=told.dead_letters, windows=told.windows)
    assert judge(told, seen).holds

    first, *others = told.alerts
    assert len(judge(replace(told, alerts=others), seen).alerts.wrong) == 1
    assert (
        len(judge(replace(told, alerts=[{**first, "site_id": "elsewhere"}, *others]), seen).alerts.wrong) == 1
    )
    invented = {**first, "alert_id": "0" * 32}
    assert len(judge(replace(told, alerts=[invented, *told.alerts]), seen).alerts.missing) == 1


def ms_since_first_alert(running: Running) -> int:
    running.note()
    logged = logged_in(running.text())
    return now_ms() - to_ms(logged[0]["first_seen_time"]) if logged else 0


def test_ctrl_c_while_alerts_come_ends_with_a_verdict(tmp_path: Path) -> None:
    with demo(tmp_path, f"--port={free_port()}", content=SPOTLESS) as running:
        # The demo looks for the first alert some five times a second; so long after it, it knows of it.
        running.reach(lambda _: ms_since_first_alert(running) > 3000)
        running.process.send_signal(signal.SIGINT)
        status = running.status()
        text = running.text()
        assert running.survivors() == []
    assert "waiting for what is still due" in text
    assert "Nothing is missing or wrong, but the scenario was too short to prove anything: " in text
    assert "no dead letter" in text.splitlines()[-1]
    assert status == 1


def at_once(running: Running) -> bool:
    return (running.home / "lock").exists()


def format_begun(running: Running) -> bool:
    return running.child("kafka.tools.StorageTool") is not None


def broker_begun(running: Running) -> bool:
    return running.child("kafka.Kafka") is not None


def spark_begun(running: Running) -> bool:
    return running.child("spark_jobs") is not None


def java_of_spark_begun(running: Running) -> bool:
    return running.child("SparkSubmit") is not None


@pytest.mark.parametrize("moment", [at_once, format_begun, broker_begun, spark_begun, java_of_spark_begun])
def test_ctrl_c_during_the_start_leaves_no_process_behind(
    tmp_path: Path, moment: Callable[[Running], bool]
) -> None:
    with demo(tmp_path, f"--port={free_port()}") as running:
        running.reach(moment)
        running.process.send_signal(signal.SIGINT)
        assert running.status() == 130, running.text()
        assert running.survivors() == []
        assert "every process that it started has ended" in running.text()
        assert "Traceback" not in running.text()


def test_a_program_that_dies_ends_the_demo_and_is_named(tmp_path: Path) -> None:
    with demo(tmp_path, f"--port={free_port()}") as running:
        running.reach(java_of_spark_begun)
        spark = running.child("-m spark_jobs")
        assert spark is not None
        spark.kill()
        assert running.status() == 1, running.text()
        assert running.survivors() == []
        last = running.text().splitlines()
    sentence = next(line for line in last if line.startswith("demo: "))
    assert sentence.startswith("demo: the Spark jobs ended by SIGKILL")
    assert str(running.home / "logs" / "Spark-jobs.log") in sentence


def test_what_a_killed_demo_left_is_ended_by_the_next_and_two_at_once_are_refused(tmp_path: Path) -> None:
    with demo(tmp_path, f"--port={free_port()}") as killed:
        killed.reach(broker_begun)
        with demo(tmp_path, f"--port={free_port()}") as second:
            assert second.status() == 1
            assert "demo: another demo runs in " in second.text()
        killed.note()
        killed.process.kill()
        killed.process.wait()
        left = killed.survivors()
        assert left, "nothing was left to be ended"
        with demo(tmp_path, f"--port={free_port()}") as third:
            third.reach(lambda _: "racks send" in third.text())
            assert killed.survivors() == []
            third.process.send_signal(signal.SIGTERM)
            assert third.status() == 128 + signal.SIGTERM
            assert third.survivors() == []


def test_a_taken_port_ends_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with demo(tmp_path, PORT=str(port)) as running:
            assert running.status() == 1
            last = running.text().splitlines()[-1]
            assert last.startswith(f"demo: port {port} is in use by ")
            assert running.survivors() == []
