"""Start one Apache Kafka broker in KRaft mode from its published jars, find it, and stop it.

A broker's data folder holds `log/` (the data), `server.properties` (rewritten at each start),
`broker.log`, `process.json` (the process that serves the folder) and `lock` (held while the broker
is started or stopped).
"""

import base64
import fcntl
import json
import os
import random
import re
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from broker import topics
from events import settings
from events.cli import UserFacingError
from jars import cds_archive
from jars.fetch import jar_paths
from jars.java import QUICK_JAVA, java

START_SECONDS = 120
"""How long a start may take: 5 s on an idle machine, much more on a busy one."""

STOP_SECONDS = 30
"""How long a broker may take to stop by itself, which saves a recovery at its next start."""

LISTENING_PORTS = range(10_000, 32_768)
"""Linux gives outgoing connections ports from 32,768 on, other systems from 49,152 on."""

HEAP = "-Xms256m -Xmx1g"
"""The broker's heap, unless KAFKA_HEAP_OPTS (Kafka's own name for it) says otherwise."""

JVM_ERROR_LINES = 3
"""An output of so few lines is a JVM that did not start: all of it is the reason."""

HEADER = "# Written by python -m broker at each start: changes made here are lost."
OWN_FILES = ("process.json", "broker.log", "broker.log.1", "log", "log.new", "server.properties")
"""The last one shows that a folder is a broker's, as long as there are others."""


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A running broker: its port, its process and its data folder."""

    port: int
    pid: int
    data_dir: Path
    child: "subprocess.Popen[bytes] | None" = field(default=None, repr=False, compare=False)

    @property
    def bootstrap(self) -> str:
        """The KAFKA_BOOTSTRAP_SERVERS of its clients."""
        return f"localhost:{self.port}"

    def stop(self) -> None:
        """Stop it, wait until its process has ended, and keep its data."""
        stop(self.data_dir)
        if self.child is not None:
            self.child.wait()


def start(
    port: int, data_dir: Path, *, fresh: bool = False, java_options: Sequence[str] = ()
) -> RunningBroker:
    """Start a broker on the port, detached from the caller, and return it once it answers.

    `java_options` are added to those of its JVM. No process remains after an error or Ctrl-C. Raise
    `UserFacingError` when the port or the folder is in use, when the folder is not a broker's, or
    when the broker dies.
    """
    data_dir = data_dir.resolve()
    config = settings.load()
    jars = jar_paths("broker", config)
    classes = cds_archive.of_lock("broker", config).java_options()
    classes += ["-cp", os.pathsep.join(map(str, jars))]
    with _locked(data_dir):
        running = find(data_dir)
        if running is not None:
            is_default = data_dir == (config.rackstream_home / "kafka").resolve()
            option = "" if is_default else f" --data-dir={data_dir}"
            raise UserFacingError(
                f"the broker of {data_dir} already runs on port {running.port} "
                f"(process {running.pid}): "
                f"use it, or stop it first with `python -m broker down{option}`."
            )
        (data_dir / "process.json").unlink(missing_ok=True)
        _check_port(port)
        if fresh:
            _wipe(data_dir)
        cluster = _format(data_dir, port, classes)
        heap = os.environ.get("KAFKA_HEAP_OPTS", HEAP).split()
        return _launch(data_dir, port, [*heap, *java_options, *classes], cluster)


def stop(data_dir: Path) -> bool:
    """Stop the broker of a data folder, wait until it has ended, and return whether one ran."""
    data_dir = data_dir.resolve()
    if not (data_dir / "process.json").exists():
        return False
    with _locked(data_dir):
        running = find(data_dir)
        if running is not None:
            with suppress(psutil.NoSuchProcess):
                _end(psutil.Process(running.pid))
        (data_dir / "process.json").unlink(missing_ok=True)
        return running is not None


def find(data_dir: Path) -> RunningBroker | None:
    """Return the broker that serves a data folder, or None if none runs."""
    data_dir = data_dir.resolve()
    try:
        recorded = json.loads((data_dir / "process.json").read_bytes())
        pid, port = int(recorded["pid"]), int(recorded["port"])
        # The command line tells this folder's broker from a later process with the same pid. The
        # start time would not: it is derived from the wall clock, which may be set meanwhile.
        if _folder_argument(data_dir) not in psutil.Process(pid).cmdline():
            return None
    except (OSError, ValueError, KeyError, TypeError, psutil.Error):
        return None
    return RunningBroker(port, pid, data_dir)


def free_port() -> int:
    """Return a port of the loopback interface that is free at this moment.

    It is drawn from those that no system gives to outgoing connections: one of them could take the
    port before it is used. Two processes that ask at the same time hardly get the same.
    """
    for port in random.SystemRandom().sample(LISTENING_PORTS, len(LISTENING_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise UserFacingError("all ports are in use: stop some programs.")


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    try:
        if data_dir.is_dir():
            _check_ours(data_dir)
        data_dir.mkdir(parents=True, exist_ok=True)
        with (data_dir / "lock").open("w") as lock:
            # Bounded in time, as the other command's work is.
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise UserFacingError(
            f"the data folder {data_dir} cannot be used ({error.strerror or error}): "
            "choose another with --data-dir."
        ) from None


def _check_ours(data_dir: Path) -> None:
    properties = data_dir / "server.properties"
    if properties.exists() and properties.read_bytes().startswith(HEADER.encode()):
        return
    if any(entry.name != "lock" for entry in data_dir.iterdir()):
        raise UserFacingError(
            f"{data_dir} has files, but is not the data folder of a broker, "
            "so it was not touched: choose another with --data-dir."
        )


def _wipe(data_dir: Path) -> None:
    for name in OWN_FILES:
        path = data_dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _check_port(port: int) -> None:
    for family, address in _loopback():
        with socket.socket(family) as probe:
            # As Kafka does: connections that were closed a moment ago do not hold the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
                probe.listen()
            except PermissionError:
                raise UserFacingError(
                    f"you may not listen on port {port}: choose one above 1023."
                ) from None
            except OSError:
                raise UserFacingError(
                    f"port {port} is in use by {_port_user(port)}: "
                    "stop that, or choose another with --port."
                ) from None


def _port_user(port: int) -> str:
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            if listens and getattr(connection.laddr, "port", None) == port and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    return "something else"


def _loopback() -> list[tuple[socket.AddressFamily, str]]:
    """Return this machine's loopback addresses: clients of `localhost` may try either first."""
    found = [(socket.AF_INET, "127.0.0.1")]
    with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        found.append((socket.AF_INET6, "::1"))
    return found


def _properties(port: int, log_dir: str) -> str:
    controller = port
    while controller == port:
        controller = free_port()
    names = {"127.0.0.1": "LOCAL4", "::1": "LOCAL6"}
    clients = [
        f"{names[host]}://{f'[{host}]' if ':' in host else host}:{port}" for _, host in _loopback()
    ]
    values = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join([*clients, f"CONTROLLER://127.0.0.1:{controller}"]),
        "advertised.listeners": ",".join(clients),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in [*names.values(), "CONTROLLER"]
        ),
        "inter.broker.listener.name": "LOCAL4",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": log_dir,  # relative to the data folder, in which Java is started
        "auto.create.topics.enable": "false",
        # One node has one copy of Kafka's own topics; 1 partition of each starts faster than 50.
        **{
            f"{topic}.{setting}": 1
            for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
            for setting in ("replication.factor", "num.partitions")
        },
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # No other node follows the metadata: its empty records are half the work of an idle broker.
        "metadata.max.idle.interval.ms": 0,
    }
    return "\n".join([HEADER, *(f"{key}={value}" for key, value in values.items()), ""])


def _format(data_dir: Path, port: int, classes: list[str]) -> str:
    """Format the data folder unless it is, and return its cluster id; all or nothing.

    `classes` are the JVM's options that name the class path.
    """
    meta = data_dir / "log" / "meta.properties"
    properties = data_dir / "server.properties"
    if not meta.exists():
        if (data_dir / "log").exists():
            raise UserFacingError(
                f"{meta} is missing: the folder is damaged; start anew with --fresh."
            )
        scratch = data_dir / "log.new"
        shutil.rmtree(scratch, ignore_errors=True)
        properties.write_text(_properties(port, scratch.name), encoding="utf-8")
        cluster = (
            base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        )
        done = subprocess.run(
            [
                *_java(data_dir, ["-Xmx256m", *QUICK_JAVA.split(), *classes]),
                *(
                    "kafka.tools.StorageTool",
                    "format",
                    "--cluster-id",
                    cluster,
                    "--config",
                    properties.name,
                ),
            ],
            cwd=data_dir,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise UserFacingError(
                f"the data folder {data_dir} was not formatted: "
                f"{_failure_reason(done.stdout + done.stderr)}"
            )
        scratch.rename(data_dir / "log")
    found = re.search(r"^cluster\.id=(\S+)", meta.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise UserFacingError(
            f"{meta} names no cluster: the folder is damaged; start anew with --fresh."
        )
    return found.group(1)


def _launch(data_dir: Path, port: int, options: list[str], cluster: str) -> RunningBroker:
    properties = data_dir / "server.properties"
    properties.write_text(_properties(port, "log"), encoding="utf-8")
    log_path = data_dir / "broker.log"
    with suppress(FileNotFoundError):
        log_path.replace(data_dir / "broker.log.1")
    command = [*_java(data_dir, options), "kafka.Kafka", properties.name]
    with log_path.open("wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=data_dir,
            start_new_session=True,
        )
    try:
        (data_dir / "process.json").write_text(
            json.dumps({"pid": child.pid, "port": port}), encoding="utf-8"
        )
        _await_answer(child, port, cluster, log_path)
    except BaseException:
        child.kill()
        child.wait()
        (data_dir / "process.json").unlink(missing_ok=True)
        raise
    return RunningBroker(port, child.pid, data_dir, child)


def _await_answer(
    child: "subprocess.Popen[bytes]", port: int, cluster: str, log_path: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(port, cluster):
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=0.1)  # until the next attempt, unless the broker dies
            text = log_path.read_text(encoding="utf-8", errors="replace")
            raise UserFacingError(
                f"the broker died while starting: {_failure_reason(text)} More is in {log_path}."
            )
        if time.monotonic() > deadline:
            raise UserFacingError(
                f"the broker did not answer within {START_SECONDS} s: see {log_path}."
            )


def _answers(port: int, cluster: str) -> bool:
    try:
        return topics.cluster_id(f"127.0.0.1:{port}", timeout_s=5) == cluster
    except UserFacingError:
        return False


def _end(process: psutil.Process) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()


def _java(data_dir: Path, options: list[str]) -> list[str]:
    config = Path(__file__).with_name("log4j2.xml")
    return [
        java(),
        *options,
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={config}",
        _folder_argument(data_dir),
    ]


def _folder_argument(data_dir: Path) -> str:
    """Return the argument by which the broker of this data folder is recognised."""
    return f"-Drackstream.data-dir={data_dir}"


def _failure_reason(text: str) -> str:
    """Return the line of a Java program's output that says why it ended: the innermost cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) <= JVM_ERROR_LINES:
        return " ".join(lines).rstrip(".") + "." if lines else "it printed nothing."
    for mark in ("Caused by: ", "ERROR", "Exception", "Error"):
        for line in reversed(lines):
            if mark in line:
                return line.removeprefix("Caused by: ").rstrip(".") + "."
    return f"{lines[-1]}."
