"""Run a dashboard as a process beside the test."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from broker.server import free_port
from tests.support import Kafka, eventually, program


@dataclass(frozen=True, slots=True)
class RunningDashboard:
    """A dashboard's process, its port and its log."""

    process: "subprocess.Popen[bytes]"
    port: int
    log: Path

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://localhost:{self.port}/"

    def health(self) -> int:
        """Return the status of `/health`, 0 while nobody listens; fail when the process ended."""
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
        try:
            return requests.get(f"{self.url}health", timeout=5).status_code
        except requests.ConnectionError:
            return 0


@contextmanager
def running_dashboard(
    kafka: Kafka, inventory: Path | None = None, *, home: Path, port: int | None = None
) -> Iterator[RunningDashboard]:
    """Run `python -m dashboard run` until the context ends; it serves when this yields."""
    log, port = home / "dashboard.log", port or free_port()
    options = [f"--port={port}", *([f"--inventory={inventory}"] if inventory else [])]
    env = {**kafka.env, "RACKSTREAM_HOME": str(home)}
    with program("dashboard", "run", *options, env=env, output=log) as process:
        running = RunningDashboard(process, port, log)
        eventually(running.health)
        yield running
