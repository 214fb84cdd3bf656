"""What the broker's commands decide before they start Java."""

import json
import os
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError

from broker import server, topics
from broker.__main__ import _default_port
from events import settings
from events.cli import UserFacingError

PORTS_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def broker_folder(path: Path, process: object) -> Path:
    path.mkdir()
    (path / "server.properties").write_text(server.HEADER + "\n")
    (path / "process.json").write_text(process if isinstance(process, str) else json.dumps(process))
    return path


@pytest.mark.parametrize(
    "process",
    [
        {"pid": os.getpid(), "port": 9092},  # a pid that another process has now
        {"pid": 2**22 + 1, "port": 9092},  # above any pid
        {"pid": "", "port": None},
        {},
        [],
        "cut sho",
        "",
    ],
)
def test_a_process_file_of_a_broker_that_has_ended_is_recognised_and_removed(
    tmp_path: Path, process: object
) -> None:
    folder = broker_folder(tmp_path / "kafka", process)
    assert server.find(folder) is None
    assert server.stop(folder) is False
    assert not (folder / "process.json").exists()


@pytest.mark.skipif(
    not PORTS_OF_CONNECTIONS.exists(), reason="only Linux tells which ports it gives"
)
def test_no_outgoing_connection_is_given_a_free_port() -> None:
    first, _ = map(int, PORTS_OF_CONNECTIONS.read_text(encoding="utf-8").split())
    ports = {server.free_port() for _ in range(50)}
    assert len(ports) > 40, "two processes that ask at once would get the same"
    assert max(ports) < first


def test_the_controller_never_takes_the_brokers_own_port(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter((12_000, 12_000, 12_001))
    monkeypatch.setattr(server, "free_port", lambda: next(drawn))
    assert "CONTROLLER://127.0.0.1:12001\n" in server._properties(12_000, "log")


@pytest.mark.parametrize("name", ["a..b", "x" * 64])
def test_a_broker_whose_name_no_host_can_have_does_not_answer(name: str) -> None:
    with pytest.raises(UserFacingError, match=f"no broker answers at {name}:9092: start one with"):
        topics.cluster_id(f"{name}:9092")


def test_a_broker_that_ends_before_it_answers_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        """It has connected, and the broker has gone."""

        def __init__(self, **_: object) -> None: ...

        def describe_cluster(self) -> None:
            raise KafkaConnectionError("gone")

        def close(self) -> None: ...

    monkeypatch.setattr(topics, "KafkaAdminClient", Client)
    monkeypatch.setattr(topics, "_listens", lambda _: True)
    with pytest.raises(UserFacingError, match=r"^the broker at x:1 did not do what was asked \("):
        topics.cluster_id("x:1")


def test_a_folder_with_other_files_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "server.properties").write_bytes("# Größe\n".encode("latin-1"))
    (tmp_path / "log").mkdir()
    for fresh in (True, False):
        with pytest.raises(UserFacingError, match="not the data folder of a broker"):
            server.start(server.free_port(), tmp_path, fresh=fresh)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log", "server.properties", "thesis.txt"]


def test_fresh_removes_the_brokers_files_and_no_others(tmp_path: Path) -> None:
    folder = broker_folder(tmp_path / "kafka", {})
    (folder / "log").mkdir()
    (folder / "log" / "meta.properties").write_text("cluster.id=x")
    (folder / "notes.txt").write_text("mine")
    server._wipe(folder)
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]


def test_a_wipe_that_was_interrupted_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = broker_folder(tmp_path / "kafka", {})
    (folder / "log").mkdir()

    def interrupted(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server._wipe(folder)
    server._check_ours(folder)
    server._wipe(folder)
    assert list(folder.iterdir()) == []


def test_a_data_dir_that_is_a_file_ends_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text("")
    with pytest.raises(UserFacingError, match="cannot be used"):
        server.start(server.free_port(), tmp_path / "kafka")


def test_the_default_port_is_that_of_the_first_bootstrap_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka.example:9192,other:9292")
    assert _default_port(settings.load()) == 9192


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            "INFO starting\nERROR Exiting Kafka (Kafka$)\njava.lang.RuntimeException: x\n"
            "\tat a.b(C.java:1)\nCaused by: java.net.BindException: Address already in use\n"
            "\tat a.b(C.java:1)\nINFO closed\n",
            "java.net.BindException: Address already in use.",
        ),
        (
            "INFO one\nINFO two\n12:00 ERROR No space left on device (Log)\nINFO closed\n",
            "12:00 ERROR No space left on device (Log).",
        ),
        (
            "Error: Could not create the Java Virtual Machine.\n",
            "Error: Could not create the Java Virtual Machine.",
        ),
        ("Killed\n", "Killed."),
        ("", "it printed nothing."),
    ],
)
def test_the_reason_why_java_ended_is_found_in_its_output(output: str, reason: str) -> None:
    assert server._failure_reason(output) == reason
