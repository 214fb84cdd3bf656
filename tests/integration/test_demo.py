"""The demo as a person runs it: an earned verdict, and no process left however it ends."""

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from broker.server import free_port
from tests.demo import RunningDemo, running_demo

pytestmark = pytest.mark.full

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
"""Shows in a few seconds what the demo's own scenario shows in sixty."""


@contextmanager
def demo(tmp_path: Path, *options: str, content: str = DENSE, **env: str) -> Iterator[RunningDemo]:
    """Run a demo of a scenario."""
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(content, encoding="utf-8")
    with running_demo(tmp_path, f"--scenario={scenario}", *options, env=env) as running:
        yield running


def lock_taken(running: RunningDemo) -> bool:
    return (running.home / "lock").exists()


def format_begun(running: RunningDemo) -> bool:
    return running.child("kafka.tools.StorageTool") is not None


def broker_begun(running: RunningDemo) -> bool:
    return running.child("kafka.Kafka") is not None


def spark_begun(running: RunningDemo) -> bool:
    return running.child("spark_jobs") is not None


def java_of_spark_begun(running: RunningDemo) -> bool:
    return running.child("SparkSubmit") is not None


@pytest.mark.parametrize(
    "moment", [lock_taken, format_begun, broker_begun, spark_begun, java_of_spark_begun]
)
def test_ctrl_c_during_the_start_leaves_no_process_behind(
    tmp_path: Path, moment: Callable[[RunningDemo], bool]
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
    assert sentence.startswith("demo: the real-time jobs ended by SIGKILL")
    assert str(running.home / "logs" / "real-time-jobs.log") in sentence


def test_what_a_killed_demo_left_is_ended_by_the_next_and_two_at_once_are_refused(
    tmp_path: Path,
) -> None:
    with demo(tmp_path, f"--port={free_port()}") as killed:
        killed.reach(broker_begun)
        with demo(tmp_path, f"--port={free_port()}") as second:
            assert second.status() == 1
            assert "demo: another demo runs in " in second.text()
        killed.note()
        killed.process.kill()
        killed.process.wait()
        assert killed.survivors(), "the killed demo left no process to end"
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
