"""Run a driver, and read what tests see of it: outputs, health, status, Python workers."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil

from broker.server import RunningBroker, free_port
from broker.topics import create_topics
from events.records import encode
from events.topics import USER_ACTIONS, USER_TOTALS
from spark_jobs.runtime.small_data import INTERPRETED_OPTIONS
from tests.builders import action
from tests.support import Kafka, eventually, kill, program, run
from tests.unit.metrics import value

USER = "user"
"""Who buys in `Driver.buy`."""


class Driver:
    """A driver of `user_totals` and other jobs with its own topics, folder and status."""

    def __init__(self, broker: RunningBroker, folder: Path, *jobs: str) -> None:
        self.jobs = ("user_totals", *jobs)
        self.kafka = Kafka(broker.bootstrap, f"status-{os.getpid()}-{uuid.uuid4().hex[:8]}-")
        create_topics(self.kafka.bootstrap, self.kafka.prefix)
        self.output, self.root = folder / "output.log", folder / "checkpoints"
        self.env = self.kafka.env | {"RACKSTREAM_HOME": str(folder)}
        self.purchases, self.metrics_port = 0, free_port()

    @contextmanager
    def running(self, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the jobs, and end all that is left of them."""
        own = (f"--checkpoint-root={self.root}", f"--metrics-port={self.metrics_port}")
        small = ("--state-partitions=2", "--read-tasks=1", *INTERPRETED_OPTIONS)
        command = ("spark_jobs", "run", *self.jobs, *own, *small, *options)
        with program(*command, env=self.env, output=self.output) as process:
            family: list[psutil.Process] = []
            try:
                yield process
                family = psutil.Process(process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                pass
            finally:
                kill(process)
                for member in family:
                    if member.is_running():
                        member.kill()

    def buy(self, count: int = 10) -> None:
        """Send purchases of one user, and one reading."""
        numbers = range(self.purchases, self.purchases + count)
        self.purchases += count
        self.kafka.send(
            USER_ACTIONS,
            [(USER, encode(action(f"a{n}", amount=Decimal("1.00")))) for n in numbers],
        )

    def counted(self) -> int:
        """Return how many of these purchases the job has counted."""
        rows = [json.loads(record.value or b"") for record in self.kafka.read_all(USER_TOTALS)]
        own = (row["purchase_count"] for row in rows if row["user_id"] == USER)
        return max(own, default=0)

    def said(self) -> str:
        """Return what the driver has printed."""
        return self.output.read_text(encoding="utf-8")

    def health(self) -> tuple[int, str]:
        """Return what the command says, and its exit status."""
        done = run("spark_jobs", "health", env=self.env)
        assert "Traceback" not in done.stderr
        return done.returncode, (done.stdout + done.stderr).strip()

    def until_health_says(self, text: str, *, timeout_s: float) -> None:
        """Wait until the command says something, and the metric `healthy` the same.

        The metric is asked first, as the command starts a process.
        """
        healthy = text.startswith("healthy")

        def said() -> str:
            found = self.metric("healthy")
            return self.health()[1] if found == healthy else f"the metric healthy is {found}"

        eventually(said, lambda said: text in said, timeout_s=timeout_s, every_s=0.2)

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric, or None while the driver does not serve it."""
        return value(self.metrics_port, name, **labels)

    def queries(self) -> dict[str, dict[str, Any]]:
        """Return the queries of the driver's status by name."""
        done = run("spark_jobs", "status", "--json", env=self.env)
        assert done.returncode == 0, done.stderr
        (driver,) = json.loads(done.stdout)
        return {query["name"]: query for query in driver["queries"]}


def python_workers(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Return the processes in which a driver's queries run Python."""
    found = {}
    for one in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "pyspark.worker" in one.cmdline():
                found[one.pid] = one
    # The process that forks the workers has the same command line.
    return [one for one in found.values() if one.ppid() in found]
